// Tables and their rows: what is accepted, what is assumed, and that a refusal names line and column.
#include "colossal/Cost/Configuration.h"

#include <gtest/gtest.h>

using namespace colossal::cost;

namespace {

Configuration first(const std::string &text, std::map<std::string, std::string> *defaults = nullptr) {
  TableResult result = parseTable(text);
  EXPECT_EQ(result.error, "");
  ConfigurationReader reader(result.table);
  EXPECT_EQ(reader.error(), "");
  Configuration row = reader.read(0);
  if (defaults)
    *defaults = reader.defaults();
  return row;
}

TEST(Table, CommentsQuotesAndEndsOfLines) {
  TableResult result = parseTable("# one\r\n# two\nname,value\r\n\"a, \"\"b\"\"\",1\n\nc,\n");
  ASSERT_EQ(result.error, "");
  EXPECT_EQ(result.table.comments, (std::vector<std::string>{"# one", "# two"}));
  EXPECT_EQ(result.table.rows, (std::vector<std::vector<std::string>>{{"a, \"b\"", "1"}, {"c", ""}}));
  EXPECT_EQ(result.table.lines, (std::vector<int>{4, 6}));
  EXPECT_EQ(printTable(result.table), "# one\n# two\nname,value\n\"a, \"\"b\"\"\",1\nc,\n");
}

TEST(Table, RefusalsNameTheLine) {
  EXPECT_EQ(parseTable("a,b\n1\n").error, "line 2: 1 cells, but there are 2 columns");
  EXPECT_EQ(parseTable("a,a\n").error, "line 1: column 'a' is there twice");
  EXPECT_EQ(parseTable("# only\n").error, "there is no line of column names");
  EXPECT_EQ(parseTable("a\n\"open\n").error, "line 2: a quote is not closed");
  EXPECT_EQ(parseTable("a,\n").error, "line 1: column 2 has no name");
}

TEST(Configuration, UnknownColumnsAreRefusedByName) {
  TableResult result = parseTable("hidden,layers,colour,tp\n1024,4,red,1\n");
  EXPECT_EQ(ConfigurationReader(result.table).error(),
            "unknown column 'colour'; colossal-cost predict --help lists those that are known");
}

TEST(Configuration, CellsAreRefusedByLineAndColumn) {
  const std::string head = "# c\ngpus,global_batch,micro_batch,hidden,heads,layers,seq,tp,dp,pp\n";
  EXPECT_EQ(first(head + "8,64,1,1024,16,24,1024,x,1,1\n").error, "line 3: column 'tp': 'x' is not a number");
  EXPECT_EQ(first(head + "8,64,1,1024,16,24,1024,0,1,1\n").error,
            "line 3: column 'tp': must be a whole number from 1 to 16777216, is 0");
  EXPECT_EQ(first(head + "8,64,1,1024,16,24,1024,2,2,1\n").error,
            "line 3: column 'gpus': 8 devices, but tp * cp * dp * pp is 4");
  EXPECT_EQ(first(head + "8,4,1,1024,16,24,1024,1,8,1\n").error,
            "line 3: column 'global_batch': 4 sequences do not give each of 8 data-parallel ranks a "
            "microbatch of 1");
  EXPECT_EQ(first(head + "8,64,1,1024,16,4,1024,1,1,8\n").error,
            "line 3: column 'pp': more stages than layers");
  EXPECT_EQ(first("hidden,layers,schedule,pp\n1024,4,2f2b,2\n").error.substr(0, 46),
            "line 2: column 'schedule': must be one of gpip");
}

TEST(Configuration, WhatIsMissingIsAssumedAndWrittenDown) {
  std::map<std::string, std::string> defaults;
  Configuration row = first("hidden,layers,gpus,tp,global_batch\n2048,12,8,2,64\n", &defaults);
  EXPECT_EQ(row.error, "");
  EXPECT_EQ(row.layout.data, 4);
  EXPECT_EQ(row.layout.microbatches(), 16);
  EXPECT_EQ(defaults.at("micro_batch"), "1");
  EXPECT_EQ(defaults.at("recompute"), "full");
  EXPECT_EQ(defaults.at("vocab"), "50257");
  EXPECT_EQ(defaults.count("hidden"), 0u);
}

TEST(Configuration, AFrameworkBringsItsAttentionUnlessAColumnSaysOtherwise) {
  std::map<std::string, std::string> defaults;
  Configuration row = first("hidden,layers,framework\n4096,12,megatron\n", &defaults);
  EXPECT_TRUE(row.model.fusedAttention);
  EXPECT_EQ(row.layout.attention, AttentionKernel::Native);
  EXPECT_EQ(defaults.count("attention"), 1u);
  EXPECT_FALSE(
      first("hidden,layers,framework,attention\n4096,12,megatron,materialized\n").model.fusedAttention);
  EXPECT_FALSE(first("hidden,layers\n4096,12\n").model.fusedAttention);
  row = first("hidden,layers,framework,attention\n4096,12,eager,flash1\n");
  EXPECT_TRUE(row.model.fusedAttention);
  EXPECT_EQ(row.layout.attention, AttentionKernel::First);
  EXPECT_EQ(first("hidden,layers,attention\n4096,12,flash\n").error,
            "line 2: column 'attention': must be materialized, fused or flash1, is 'flash'");
}

TEST(Configuration, AFrameworkIsHeededWhateverTheOtherColumns) {
  for (const char *table : {"framework,model,pp_gpus,num_microbatches\nmegatron,1.5B,8,24\n",
                            "framework,scheme,params_B,model_parallel_size,gpus,global_batch\n"
                            "megatron,PTD,174.6,96,768,1536\n",
                            "framework,model,gpus,fsdp,technique\nmegatron,llama3.1-8b,8,8,FSDP\n",
                            "framework,setting\nmegatron,baseline no recompute\n",
                            "framework,model,method,gpus\nmegatron,gpt 1.3b,megatron,8\n"}) {
    Configuration row = first(table);
    EXPECT_EQ(row.error, "") << table;
    EXPECT_EQ(row.framework, "megatron") << table;
    EXPECT_TRUE(row.layout.compiled && row.layout.asyncPipeline) << table;
    EXPECT_EQ(row.layout.hostLaunchSeconds, -1) << table;
  }
}

TEST(Configuration, WhatARowAsksIsAColumn) {
  EXPECT_EQ(first("question,model,tp\nlayer,gpt 22b,8\n").question, Question::Layer);
  EXPECT_EQ(first("question,model,gpus\nbest_step,gpt 1.3b,8\n").question, Question::BestStep);
  EXPECT_EQ(
      first("question,hidden,layers\nweather,1024,4\n").error,
      "line 2: column 'question': must be step, best_step, all_reduce, layer or stage_memory, is 'weather'");
  // A synonym's own name stands in what is said of its value.
  EXPECT_EQ(first("pp_gpus,hidden,layers\nmany,1024,4\n").error,
            "line 2: column 'pp_gpus': 'many' is not a number");
  EXPECT_EQ(first("scheme,hidden,layers\nmine,1024,4\n").error,
            "line 2: column 'scheme': must name ZeRO-3 or PTD, is 'mine'");
}

TEST(Configuration, PublishedTablesReadAsTheyAre) {
  Configuration zero =
      first("schedule,model,layers,heads,hidden,pp_gpus,micro_batch,num_microbatches,seq,samples_per_gpu_s,"
            "peak_mem_GB\n1F1B-I,1.5B,22,24,2304,8,6,24,1024,13.1,40\n");
  EXPECT_EQ(zero.error, "");
  EXPECT_EQ(zero.layout.schedule, Schedule::Interleaved);
  EXPECT_EQ(zero.layout.chunks, 3);
  EXPECT_EQ(zero.layout.recompute, Recompute::None);
  EXPECT_EQ(zero.layout.microbatches(), 24);
  Configuration sc21 =
      first("scheme,params_B,model_parallel_size,global_batch,gpus,micro_batch,tflops_per_gpu,"
            "train_days_300B_tokens\nPTD,174.6,96,1536,768,1,149,43\n");
  EXPECT_EQ(sc21.error, "");
  EXPECT_EQ(sc21.layout.tensor, 8);
  EXPECT_EQ(sc21.layout.pipeline, 12);
  EXPECT_EQ(sc21.layout.data, 8);
  EXPECT_EQ(sc21.model.hidden, 12288);
  Configuration titan = first("model,gpus,fsdp,tp,pp,cp,local_batch,seq,act_ckpt,technique,mem_GiB\n"
                              "Llama3.1-8B,8,4,1,1,2,1,65536,full,FSDP+CP+compile+fp8,84\n");
  EXPECT_EQ(titan.error, "");
  EXPECT_EQ(titan.layout.zero, 3);
  EXPECT_EQ(titan.layout.context, 2);
  EXPECT_TRUE(titan.layout.float8);
  EXPECT_EQ(titan.model.sequence, 65536);
  Configuration reduce = first("gpu,n_gpus,size_B,count,oop_time_ns\nv100,4,1048576,262144,67260\n");
  EXPECT_EQ(reduce.question, Question::AllReduce);
  EXPECT_EQ(reduce.device, "v100");
  Configuration nothing = first("item,value,unit\nTable5 total,2393.26,s\n");
  EXPECT_EQ(nothing.question, Question::Nothing);
}

} // namespace
