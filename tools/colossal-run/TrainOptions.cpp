// The options of training, their help, and what of them a checkpoint keeps.
#include "TrainOptions.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <map>
#include <set>

namespace colossal::runtime {

namespace {

constexpr const char *closing =
    "Examples:\n"
    "  colossal-run train gpt2.cplan --data input_ids=tokens.bin:u16 --data attention_mask=fill:1 --steps "
    "1000 \\\n"
    "    --lr 3e-4 --lr-schedule cosine --warmup 100 --clip 1 --shuffle 1 --log log.jsonl --checkpoint ckpt "
    "--every 100\n"
    "  colossal-run train gpt2.cplan --data ... --steps 2000 --resume ckpt --checkpoint ckpt --every 100\n\n"
    "Ctrl-C finishes the step, saves (with --checkpoint) and says how to go on. docs/Training.md has the "
    "rest.\n\n"
    "Exit codes are those of colossal-run, and\n"
    "  8    the loss is no number (--stop-on-nan)\n"
    "  130  ended by Ctrl-C, after a whole step";

/// Steps, or how many of something: CLI11's own check of positive numbers tells the greatest double.
CLI::Range isCount() {
  return {1u, 1000000000u};
}

/// The name of a member in a checkpoint, and the member.
template <class Visit>
void visitOptions(TrainOptions &options, Visit visit) {
  Hyperparameters &p = options.parameters;
  visit("lr", p.lr), visit("weight_decay", p.weightDecay), visit("beta1", p.beta1), visit("beta2", p.beta2);
  visit("eps", p.eps), visit("momentum", p.momentum), visit("dampening", p.dampening), visit("clip", p.clip);
  visit("trust", p.trust), visit("beta2_decay", p.beta2Decay), visit("eps2", p.eps2);
  visit("threshold", p.threshold), visit("nesterov", p.nesterov);
  visit("lr_schedule", options.schedule), visit("warmup", options.warmup), visit("power", options.power);
  visit("gamma", options.gamma), visit("milestones", options.milestones);
  visit("schedule_steps", options.scheduleSteps), visit("shuffle", options.shuffle);
  visit("seed", options.seed);
}

void addOptimizerOptions(CLI::App &app, TrainOptions &options) {
  CLI::App &group =
      *app.add_option_group("Optimizer", "Defaults are PyTorch's, or the paper's; a run that is "
                                         "resumed keeps what it was given");
  Hyperparameters &p = options.parameters;
  group.add_option("--lr", p.lr, "Learning rate");
  group.add_option("--weight-decay", p.weightDecay, "Weight decay");
  group.add_option("--momentum", p.momentum, "Momentum of sgd and lars");
  group.add_option("--dampening", p.dampening, "Dampening of sgd's momentum");
  group.add_flag_callback("--nesterov", [&p] { p.nesterov = true; }, "Nesterov's momentum");
  group.add_option("--beta1", p.beta1, "Decay of the mean of gradients");
  group.add_option("--beta2", p.beta2, "Decay of the mean of their squares (lion: of the momentum)");
  group.add_option("--eps", p.eps, "What denominators are kept from zero by");
  group.add_option("--clip", p.clip,
                   "Greatest global norm of the gradients; greater ones are scaled down to it");
  group.add_option("--trust", p.trust, "Trust coefficient of lars");
  group.add_option("--beta2-decay", p.beta2Decay, "Exponent of adafactor's decay");
  group.add_option("--eps2", p.eps2, "Least scale of a parameter to adafactor");
  group.add_option("--threshold", p.threshold, "Greatest root mean square of adafactor's update");
  group
      .add_option(
          "--lr-schedule", options.schedule,
          "The learning rate over the steps: constant, linear or cosine or polynomial down to 0, multistep")
      ->check(CLI::IsMember({"constant", "linear", "cosine", "polynomial", "multistep"}));
  group.add_option("--warmup", options.warmup, "Steps in which the learning rate rises to --lr")
      ->check(isWholeNumber());
  group.add_option("--power", options.power, "Exponent of --lr-schedule polynomial [1]");
  group
      .add_option("--milestones", options.milestones,
                  "Steps after which --lr-schedule multistep multiplies the rate with --gamma: 100,200")
      ->delimiter(',')
      ->check(isWholeNumber());
  group.add_option("--gamma", options.gamma, "What multistep multiplies with [0.1]");
  group
      .add_option("--schedule-steps", options.scheduleSteps,
                  "Steps that the schedule is over (default: --steps; a resumed run keeps it)")
      ->check(isWholeNumber());
  group.add_option("--seed", options.seed, "Seed of dropout and other random numbers [0]")
      ->check(isWholeNumber());
}

void addDataOptions(CLI::App &app, TrainOptions &options) {
  CLI::App &group = *app.add_option_group("Data", "");
  group.add_option(
      "--data", options.data,
      "Data of an input, repeatable: NAME=FILE.npy or NAME=FILE.npz, first dimension samples; FILE.npz, all "
      "arrays of it;\n"
      "NAME=FILE.bin:u16, a stream of tokens (or u8, i8, i16, u32, i32, i64, f32) that is cut into samples; "
      "NAME=fill:1, a constant");
  group
      .add_option(
          "--shuffle", options.shuffle,
          "Take the samples in an order drawn from this seed, another in each epoch (default: as they stand)")
      ->check(isWholeNumber());
  group.add_option("--evaluate-data", options.evaluateData,
                   "Data of the program 'evaluate', as --data; whole batches of it, in order");
  group
      .add_option("--evaluate-every", options.evaluateEvery,
                  "Evaluate after each so many steps (default: after the last)")
      ->check(isCount());
}

void addRunOptions(CLI::App &app, TrainOptions &options) {
  app.add_option("--steps", options.steps, "The step to end with; counted from 1 through all resumes")
      ->check(isCount());
  app.add_option("--log", options.log, "Write a JSON object for each step to this file, one a line");
  app.add_option("--tensorboard", options.tensorboard, "Write events for TensorBoard into this folder");
  app.add_option(
      "--checkpoint", options.checkpoint,
      "Save into this folder, each time in a folder step-N of its own: after the last step, and every "
      "--every steps");
  app.add_option("--every", options.every,
                 "Steps between checkpoints; without --checkpoint, in the folder of --resume")
      ->check(isCount());
  app.add_option("--keep", options.keep, "Checkpoints to keep, the newest (default: all)")->check(isCount());
  app.add_option("--resume", options.resume,
                 "Go on from a checkpoint: such a folder's newest, or one folder step-N; of any mesh. Saves "
                 "there, too, with --every or at Ctrl-C; else only into --checkpoint");
  app.add_flag("--stop-on-nan", options.stopOnNan, "End where the loss is no number");
  app.add_option("--comm", options.session.communicator,
                 "How ranks talk: local, mpi or nccl (see colossal-run --help)")
      ->check(CLI::IsMember({"local", "mpi", "nccl"}));
  app.add_option("--threads", options.session.threads,
                 "Threads of each rank (default: this machine's cores / its ranks)")
      ->check(CLI::Range(1u, 1024u));
  app.add_option("--weights", options.session.weights,
                 "Where the weight files lie now, or a .safetensors file that training begins with");
  app.add_option("--random-weights", options.session.randomWeights,
                 "Fill weights from this seed instead of files; equal on any mesh")
      ->check(isWholeNumber());
  app.add_option("--timeout", options.timeout,
                 "Time without progress after which all ranks are ended: SECONDS, FACTORx of what the plan "
                 "predicts,\nFACTORx,SECONDS or never; see colossal-run --help [100x,120]");
  app.add_option("--trace", options.trace,
                 "Write when each instruction of each step ran, as JSON for ui.perfetto.dev");
  app.add_flag("--memory", options.memory, "Print planned and measured memory of each rank by kind");
  app.add_flag(
      "--json", options.json,
      "Print one JSON object in the end, and no lines of steps: the last step's loss, predicted and measured "
      "times, what each rank sent in the last step by axes and kind, and memory");
  app.add_flag("--eager", options.session.eager,
               "Enqueue each instruction in every run, also where a device could replay a recording");
  app.add_flag("--ordered", options.session.ordered,
               "Add up among ranks in their order, where NCCL has its own");
}

bool endsWith(const std::string &text, const std::string &end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

/// As a shell reads it back.
std::string quoted(const std::string &argument) {
  constexpr const char *plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=:,./@%";
  if (!argument.empty() && argument.find_first_not_of(plain) == std::string::npos)
    return argument;
  std::string text = "'";
  for (const char c : argument)
    text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

} // namespace

CLI::Validator isWholeNumber() {
  return CLI::Validator(
      [](const std::string &text) {
        uint64_t number = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
        return error == std::errc() && end == text.data() + text.size()
                   ? std::string()
                   : "'" + text + "' is not a whole number from 0 to 2^64 - 1";
      },
      "");
}

void addTrainOptions(CLI::App &app, TrainOptions &options) {
  app.add_option("PLAN", options.plan, "The plan file, compiled with --training");
  addDataOptions(app, options);
  addOptimizerOptions(app, options);
  addRunOptions(app, options);
  app.footer(closing);
}

Status checkTrainOptions(TrainOptions &options) {
  // `--data A=a.npy PLAN`: the plan was taken for data.
  for (auto item = options.data.begin(); options.plan.empty() && item != options.data.end(); ++item)
    if (item->find('=') == std::string::npos && !endsWith(*item, ".npz")) {
      options.plan = *item;
      options.data.erase(item);
      break;
    }
  const auto usage = [](const std::string &text) { return Status(Code::InvalidArgument, text); };
  if (options.plan.empty())
    return usage("PLAN is required");
  if (options.steps == 0)
    return usage("--steps is required: the step to end with");
  if (options.evaluateEvery > 0 && options.evaluateData.empty())
    return usage("--evaluate-every needs --evaluate-data");
  if ((options.every > 0 || options.keep > 0) && options.checkpoint.empty() && options.resume.empty())
    return usage("--every and --keep need --checkpoint, the folder to save into");
  if (options.keep > 0 && options.checkpoint.empty() && options.every == 0)
    return usage(
        "--keep needs --checkpoint, the folder to save into, or --every, to save into that of --resume");
  if (!options.session.weights.empty() && options.session.randomWeights)
    return usage("--weights and --random-weights exclude each other");
  if (!options.timeout.empty())
    COLOSSAL_RETURN_IF_ERROR(Deadline::parse(options.timeout, options.session.deadline));
  options.session.trace = !options.trace.empty();
  return {};
}

std::vector<std::string> findUnread(const TrainOptions &options, const std::vector<std::string> &stepValues) {
  // Options have the names of the step values that they are, but for these; the run itself reads the others.
  const std::set<std::string> ofOptimizers = {"weight_decay", "beta1",    "beta2",     "eps",
                                              "momentum",     "nesterov", "dampening", "trust",
                                              "beta2_decay",  "eps2",     "threshold"};
  const std::map<std::string, std::string> readAs = {{"beta2_decay", "one_minus_beta2"}};
  const std::map<std::string, std::string> ofSchedules = {
      {"power", "polynomial"}, {"gamma", "multistep"}, {"milestones", "multistep"}};
  const bool knowsSchedule = options.schedule || options.resume.empty(); // else it is the checkpoint's
  std::vector<std::string> unread;
  visitOptions(const_cast<TrainOptions &>(options), [&](const char *name, const auto &value) {
    if (!value)
      return;
    const auto other = readAs.find(name);
    const auto schedule = ofSchedules.find(name);
    const bool isUnread =
        schedule != ofSchedules.end()
            ? knowsSchedule && options.schedule.value_or("constant") != schedule->second
            : ofOptimizers.count(name) > 0 &&
                  std::find(stepValues.begin(), stepValues.end(),
                            other == readAs.end() ? name : other->second) == stepValues.end();
    if (!isUnread)
      return;
    std::string typed = std::string("--") + name;
    std::replace(typed.begin(), typed.end(), '_', '-');
    unread.push_back(typed);
  });
  return unread;
}

std::string resumingLine(std::vector<std::string> arguments, const std::string &from) {
  const std::string option = "--resume", joined = option + "=";
  bool isGiven = false;
  for (size_t a = 0; a < arguments.size(); ++a) {
    if (arguments[a].compare(0, joined.size(), joined) == 0)
      arguments[a] = joined + from, isGiven = true;
    else if (arguments[a] == option && a + 1 < arguments.size())
      arguments[++a] = from, isGiven = true;
  }
  if (!isGiven)
    arguments.insert(arguments.end(), {option, from});
  std::string line;
  for (const std::string &argument : arguments)
    line += (line.empty() ? "" : " ") + quoted(argument);
  return line;
}

nlohmann::json optionsJson(const TrainOptions &options) {
  nlohmann::json saved = nlohmann::json::object();
  visitOptions(const_cast<TrainOptions &>(options), [&](const char *name, const auto &value) {
    if (value)
      saved[name] = *value;
  });
  return saved;
}

void takeOptions(const nlohmann::json &saved, TrainOptions &options) {
  visitOptions(options, [&](const char *name, auto &value) {
    if (!value && saved.contains(name) && !saved.at(name).is_null())
      value = saved.at(name).get<std::decay_t<decltype(*value)>>();
  });
}

} // namespace colossal::runtime
