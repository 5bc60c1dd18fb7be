/* Runs a plan with zeros as inputs and prints the first values of each float output:  run_plan PLAN */
#include <colossal-runtime.h>

#include <stdio.h>
#include <stdlib.h>

static int failed(const char *what) {
  fprintf(stderr, "%s: %s\n", what, colossal_last_error());
  return 1;
}

int main(int argc, char **argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: %s PLAN\n", argv[0]);
    return 2;
  }
  colossal_options options = {.size = sizeof options, .threads = 1};
  colossal_session *session;
  if (colossal_open(argv[1], &options, &session) != COLOSSAL_OK)
    return failed("open");

  for (size_t i = 0; i < colossal_input_count(session, 0); ++i) {
    colossal_tensor input;
    if (colossal_input(session, 0, i, &input) != COLOSSAL_OK)
      return failed("input");
    void *zeros = calloc(input.bytes ? input.bytes : 1, 1);
    if (!zeros ||
        colossal_set_input(session, input.name, input.type, input.rank, input.shape, zeros) != COLOSSAL_OK)
      return failed(input.name);
    free(zeros);
  }

  size_t program;
  if (colossal_run(session, &program) != COLOSSAL_OK)
    return failed("run");
  printf("program %s\n", colossal_program_name(session, program));
  for (size_t i = 0; i < colossal_output_count(session, program); ++i) {
    colossal_tensor output;
    const void *data;
    if (colossal_output(session, program, i, &output) != COLOSSAL_OK ||
        colossal_get_output(session, output.name, &output, &data) != COLOSSAL_OK)
      return failed("output");
    printf("%s:", output.name);
    for (size_t e = 0; output.type == COLOSSAL_F32 && e < output.bytes / sizeof(float) && e < 4; ++e)
      printf(" %g", ((const float *)data)[e]);
    printf("\n");
  }
  colossal_close(session);
  return 0;
}
