/* The runtime as a C library: load a plan, set inputs, run, get outputs.
 *
 *   colossal_session *s;
 *   if (colossal_open("model.cplan", NULL, &s) != COLOSSAL_OK)
 *     fprintf(stderr, "%s\n", colossal_last_error());
 *
 * All ranks of the plan run as threads of the calling process, or, with communicator "mpi", each process of
 * an MPI run holds its own rank and all make the same calls. A session is used by one thread at a time; a
 * call while another thread is in one gives COLOSSAL_BUSY and changes nothing. What describes programs, and
 * where it is stated, may be asked by any thread at any time. Every call checks its arguments; a session that
 * is NULL or was closed is COLOSSAL_INVALID_ARGUMENT. A plan holds machine code: whoever opens one runs it.
 */
#ifndef COLOSSAL_RUNTIME_H
#define COLOSSAL_RUNTIME_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(COLOSSAL_BUILDING_LIBRARY)
#define COLOSSAL_API __attribute__((visibility("default")))
#else
#define COLOSSAL_API
#endif

/* What a call returns; colossal_last_error() has the words. */
typedef enum colossal_status {
  COLOSSAL_OK = 0,
  COLOSSAL_INVALID_ARGUMENT = 1, /* names, types or shapes that fit no program */
  COLOSSAL_NOT_FOUND = 2,        /* a file or name */
  COLOSSAL_IO = 3,
  COLOSSAL_PERMISSION = 4,   /* others may write to the plan */
  COLOSSAL_INVALID_PLAN = 5, /* damaged, or breaks a rule of the format */
  COLOSSAL_UNSUPPORTED = 6,  /* version, CPU feature, library or communicator */
  COLOSSAL_OUT_OF_MEMORY = 7,
  COLOSSAL_RANK_FAILED = 8,
  COLOSSAL_TIMEOUT = 9,
  COLOSSAL_INTERRUPTED = 10,
  COLOSSAL_INTERNAL = 11,
  COLOSSAL_BUSY = 12 /* another thread is in a call on the session */
} colossal_status;

/* Element types, as in the plan. 16-bit floats are given and taken as their bits, except that outputs of type
 * bf16 come as f32. Elements of the narrow types are a byte each: floats by their bits, integers as int8_t or
 * uint8_t; outputs of narrow float types come as f32. */
typedef enum colossal_type {
  COLOSSAL_F32 = 1,
  COLOSSAL_F64 = 2,
  COLOSSAL_F16 = 3,
  COLOSSAL_BF16 = 4,
  COLOSSAL_I8 = 5,
  COLOSSAL_I16 = 6,
  COLOSSAL_I32 = 7,
  COLOSSAL_I64 = 8,
  COLOSSAL_U8 = 9,
  COLOSSAL_U16 = 10,
  COLOSSAL_U32 = 11,
  COLOSSAL_U64 = 12,
  COLOSSAL_BOOL = 13, /* one byte, 0 or 1 */
  COLOSSAL_F8E4M3FN = 14,
  COLOSSAL_F8E4M3FNUZ = 15,
  COLOSSAL_F8E5M2 = 16,
  COLOSSAL_F8E5M2FNUZ = 17,
  COLOSSAL_F8E8M0 = 18,
  COLOSSAL_F4E2M1 = 19,
  COLOSSAL_I4 = 20,
  COLOSSAL_U4 = 21,
  COLOSSAL_I2 = 22,
  COLOSSAL_U2 = 23,
  COLOSSAL_STRING = 24 /* a colossal_string */
} colossal_type;

/* An element of a tensor of strings: any bytes, not ended by a zero. */
typedef struct colossal_string {
  const char *text;
  size_t size;
} colossal_string;

typedef struct colossal_session colossal_session;

/* Zero-initialize, set `size` to sizeof(colossal_options), then what differs from the default. Another size,
 * 0 among them, is an error. */
typedef struct colossal_options {
  size_t size;
  const char *communicator; /* "local", "mpi" or "nccl"; NULL: nccl for a plan for GPUs in one of several
                               processes, else local */
  unsigned threads;         /* of each rank; 0: the machine's cores divided by its ranks */
  const char *weights;      /* folder or file where the weights lie now; NULL: where the plan says */
  double timeout_seconds;   /* without progress before a run is given up; 0: as `timeout` says */
  int fill_weights; /* not 0: weights are filled from `weights_seed`, equal on any mesh; no weight file is
                       read */
  uint64_t weights_seed;
  int trace;   /* not 0: every run records when each instruction ran, as by colossal_set_trace */
  int eager;   /* not 0: every run enqueues each instruction, also where a device could replay a recording */
  int ordered; /* not 0: sums among ranks are taken in the order of the ranks, also where NCCL has another */
  const char *timeout; /* the time without progress as --timeout of colossal-run takes it: "600", "100x" of
                          what the plan predicts, "100x,120", "never"; NULL: "100x,120", and on emulated
                          devices "600" */
} colossal_options;

/* A tensor of a program. Name and shape belong to the session. */
typedef struct colossal_tensor {
  const char *name;
  colossal_type type;
  size_t rank;
  const uint64_t *shape;
  size_t bytes; /* of the dense, row-major elements */
} colossal_tensor;

/* The library's version, "major.minor.patch". */
COLOSSAL_API const char *colossal_version(void);
/* Why the last call of this thread failed, naming the rank and the instruction where there is one. */
COLOSSAL_API const char *colossal_last_error(void);

/* The exit code with which the project's tools report a status: 0 ok, 2 wrong inputs, 3 a file, 4 a refused
 * plan, 5 not supported here, 6 a failed rank or no memory, 7 a hang, 130 interrupted. */
COLOSSAL_API int colossal_exit_code(colossal_status status);

/* Checks the plan, allocates all memory, loads code and weights. `options` may be NULL. With mpi, what fails
 * here after MPI has started is printed and ends all processes of the run with colossal_exit_code. */
COLOSSAL_API colossal_status colossal_open(const char *plan, const colossal_options *options,
                                           colossal_session **session);
/* NULL and what is closed already are ignored. A call that another thread is in goes on to its end and keeps
 * what it uses until then. */
COLOSSAL_API void colossal_close(colossal_session *session);

/* Programs, one for each binding of dimensions, and what each takes and gives; from any thread. Out of range:
 * COLOSSAL_INVALID_ARGUMENT, or 0 or NULL. */
COLOSSAL_API size_t colossal_program_count(const colossal_session *session);
COLOSSAL_API const char *colossal_program_name(const colossal_session *session, size_t program);
COLOSSAL_API size_t colossal_input_count(const colossal_session *session, size_t program);
COLOSSAL_API size_t colossal_output_count(const colossal_session *session, size_t program);
COLOSSAL_API colossal_status colossal_input(const colossal_session *session, size_t program, size_t index,
                                            colossal_tensor *tensor);
COLOSSAL_API colossal_status colossal_output(const colossal_session *session, size_t program, size_t index,
                                             colossal_tensor *tensor);

/* Copies an input; it stays set for later runs until it is set again or all are cleared. */
COLOSSAL_API colossal_status colossal_set_input(colossal_session *session, const char *name,
                                                colossal_type type, size_t rank, const uint64_t *shape,
                                                const void *data);
/* Puts elements [first, first + count) of an input, dense, row-major, at `elements`; not 0: it failed. */
typedef int (*colossal_read_elements)(void *user, uint64_t first, uint64_t count, void *elements);
/* An input whose elements are read at each run, by every rank those that it holds: `read` is called from the
 * ranks' threads at the same time, and only while a call of this thread runs a program. */
COLOSSAL_API colossal_status colossal_set_input_source(colossal_session *session, const char *name,
                                                       colossal_type type, size_t rank, const uint64_t *shape,
                                                       colossal_read_elements read, void *user);
/* Of both kinds. */
COLOSSAL_API colossal_status colossal_clear_inputs(colossal_session *session);
/* Sets an input of a program to values that depend on `seed` and its name only: normal floats, integers of 0
 * and 1. */
COLOSSAL_API colossal_status colossal_set_random_input(colossal_session *session, size_t program,
                                                       size_t index, uint64_t seed);

/* The program whose inputs have the names, types and shapes of those set; where none has, the error lists
 * them all. */
COLOSSAL_API colossal_status colossal_select(colossal_session *session, size_t *program);
/* Runs it. `program` (may be NULL) tells which it was. */
COLOSSAL_API colossal_status colossal_run(colossal_session *session, size_t *program);
/* Runs it `runs` times (1 to 2^32 - 1) with the same inputs. A rank begins with the next run when it has
 * ended one, whatever the others do, so that stages of a pipeline work on several runs at once. Outputs are
 * those of the last; `seconds` of the statistics is the time of all, `interval_seconds` that from one to the
 * next. */
COLOSSAL_API colossal_status colossal_run_many(colossal_session *session, size_t runs, size_t *program);

/* The program of a name; COLOSSAL_NOT_FOUND where there is none. From any thread. */
COLOSSAL_API colossal_status colossal_find_program(const colossal_session *session, const char *name,
                                                   size_t *program);
/* Runs a program once, whatever other programs the inputs would fit. Inputs that are set and that it does not
 * take may be there. */
COLOSSAL_API colossal_status colossal_run_program(colossal_session *session, size_t program);

/* An output of the last run; `data` belongs to the session and is valid until the next run. The first call
 * after a run collects all outputs from the ranks: with mpi every process makes it, rank 0 gets the data and
 * the others NULL. */
COLOSSAL_API colossal_status colossal_get_output(colossal_session *session, const char *name,
                                                 colossal_tensor *tensor, const void **data);

/* Ends the run in progress with COLOSSAL_INTERRUPTED; from any thread or signal handler, while the session is
 * open. The session cannot run again. */
COLOSSAL_API void colossal_interrupt(colossal_session *session);

/* After an error with mpi, from any thread: ends the other processes of the run too, and this one, with
 * `exit_code`. Returns only where there are no others. */
COLOSSAL_API void colossal_end_processes(colossal_session *session, int exit_code);

/* What a session is and what its last run cost. Set `size` to sizeof(colossal_statistics). */
typedef struct colossal_statistics {
  size_t size;
  uint32_t ranks;
  uint32_t threads;          /* of each rank */
  int root;                  /* whether this process holds rank 0, which gets the outputs and reports */
  uint64_t arena_bytes;      /* of each rank, as planned */
  uint64_t collective_bytes; /* sent by this process's first rank in the last run */
  uint64_t planned_collective_bytes; /* the same, as planned */
  double seconds;                    /* of the last run, from all ranks' start to all ranks' end */
  double predicted_seconds;          /* the compiler's estimate for that program; 0 where there is none */
  int runs_overlap;                  /* whether it was compiled for the throughput of colossal_run_many */
  /* From one run of colossal_run_many to the next once all ranks work: of the slowest rank from the end of
   * its first run to that of its last, by run; at the root. `seconds` where there was one run. */
  double interval_seconds;
} colossal_statistics;
COLOSSAL_API colossal_status colossal_get_statistics(const colossal_session *session,
                                                     colossal_statistics *statistics);

/* What the user should be told about the way the plan was opened; empty if nothing. */
COLOSSAL_API const char *colossal_warning(const colossal_session *session);

/* Memory of one rank by kind: bytes as planned, and in use now. */
typedef struct colossal_memory_row {
  uint32_t rank;
  const char *kind;
  uint64_t planned, measured;
} colossal_memory_row;
/* The rows of all ranks, at the root; `rows` belongs to the session until the next call. With mpi every
 * process calls it. */
COLOSSAL_API colossal_status colossal_get_memory(colossal_session *session, const colossal_memory_row **rows,
                                                 size_t *count);

/* Whether a file can be written at `path`: COLOSSAL_INVALID_ARGUMENT where it is, by whatever name, the plan
 * or a file of its weights, or a folder; COLOSSAL_NOT_FOUND or COLOSSAL_IO where the system would refuse. */
COLOSSAL_API colossal_status colossal_check_output(const colossal_session *session, const char *path);

/* What one rank sent in the last run along some axes of the mesh, in one kind of transfer. */
typedef struct colossal_traffic_row {
  uint32_t rank;
  int32_t stage; /* the rank's stage, or its coordinate along the axis `stage`; -1 where there are neither */
  const char *axes; /* their names, separated by commas */
  const char *kind; /* "all_reduce", "all_gather", ..., or "send" */
  uint64_t sent;    /* bytes, counted by the communicator where it sent them */
  uint64_t planned; /* by the closed formulas of the plan format */
} colossal_traffic_row;
/* The rows of all ranks, at the root; `rows` belongs to the session until the next call. With mpi every
 * process calls it. */
COLOSSAL_API colossal_status colossal_get_traffic(colossal_session *session,
                                                  const colossal_traffic_row **rows, size_t *count);

/* The device of one rank. */
typedef struct colossal_device_row {
  uint32_t rank;
  const char *device;             /* "cpu (2 threads)", "cuda:0 NVIDIA H100 80GB HBM3 (sm_90)" */
  int emulated;                   /* whether a host executes the device's code instruction by instruction */
  uint64_t emulated_instructions; /* so far, a thread each, by all devices of the rank's process */
} colossal_device_row;
/* The devices of all ranks, at the root; `rows` belongs to the session until the next call. With mpi every
 * process calls it. */
COLOSSAL_API colossal_status colossal_get_devices(colossal_session *session, const colossal_device_row **rows,
                                                  size_t *count);

/* Whether runs from now on record when each instruction ran; as opened, what colossal_options.trace says.
 * What was recorded before is forgotten. Of very many runs the last are kept. */
COLOSSAL_API colossal_status colossal_set_trace(colossal_session *session, int trace);

/* One instruction over the recorded runs, averages of all ranks and runs. */
typedef struct colossal_profile_row {
  const char *name;         /* ONNX names of its operators */
  const char *kind;         /* "launch", "collective", ... */
  const char *kernel;       /* the generated kernel or the library's routine; "" for others */
  double executions;        /* in one run */
  double seconds;           /* in one run, without what it waited for other ranks */
  double waiting_seconds;   /* in one run */
  double predicted_seconds; /* in one run, by the compiler; 0 where it says nothing */
} colossal_profile_row;
/* The instructions that ran, the dearest first, at the root; `rows` belongs to the session until the next
 * call. With mpi every process calls it. */
COLOSSAL_API colossal_status colossal_get_profile(colossal_session *session,
                                                  const colossal_profile_row **rows, size_t *count);

/* Writes the recorded runs of all ranks as JSON that ui.perfetto.dev opens, at the root; whole or not at all,
 * and nowhere that colossal_check_output refuses. With mpi every process calls it. */
COLOSSAL_API colossal_status colossal_write_trace(colossal_session *session, const char *path);

/* Safe in a signal handler, for the thread that it runs on: which rank it carries, and the name of the
 * operator whose instruction it executes (NULL if none). 0 if it carries no rank. */
COLOSSAL_API int colossal_crash_site(uint32_t *rank, const char **source);

#ifdef __cplusplus
}
#endif

#endif /* COLOSSAL_RUNTIME_H */
