// Single instructions on random and on extreme operands, against what their definition says; and matrices
// laid out as the PTX manual lays them out.
#include "Harness.h"
#include "Values.h"

#include <cmath>
#include <functional>

namespace colossal::ptx {
namespace {

using Bits = std::uint64_t;

struct Case {
  std::string text; ///< sets %d from %a, %b and %c; %q is a predicate
  unsigned in = 4, out = 4;
  std::function<Bits(Bits a, Bits b, Bits c)> expected;
  bool number = false; ///< the results are floats: any NaN equals any
};

float F(Bits bits) {
  return bitCast<float>(static_cast<std::uint32_t>(bits));
}
Bits B(float value) {
  return bitCast<std::uint32_t>(value);
}
std::int32_t S(Bits bits) {
  return static_cast<std::int32_t>(bits);
}
std::int64_t L(Bits bits) {
  return static_cast<std::int64_t>(bits);
}

std::vector<Bits> operands(unsigned bytes, unsigned seed) {
  std::mt19937_64 generator(seed);
  std::vector<Bits> values;
  const Bits extremes[] = {0,
                           1,
                           2,
                           31,
                           32,
                           33,
                           63,
                           64,
                           255,
                           0x7f,
                           0x80,
                           0xff00,
                           0x7fff,
                           0x8000,
                           0xffff,
                           0x3c00,
                           0x7c00,
                           0x7e00,
                           0xfc00,
                           0x7fffffff,
                           0x80000000,
                           0xffffffff,
                           0x3f800000,
                           0x7f800000,
                           0xff800000,
                           0x7fc00000,
                           0x00000001,
                           0x807fffff,
                           0x4f000000,
                           0xcf000001,
                           0x5f800000,
                           0x7fffffffffffffff,
                           0x8000000000000000,
                           ~Bits(0)};
  for (unsigned i = 0; i < 1024; ++i) {
    Bits value = generator() % 4 ? generator() : extremes[generator() % std::size(extremes)];
    // Numbers of moderate size as well, whole ones and others.
    if (bytes == 4 && i % 4 == 1)
      value = B(static_cast<float>(static_cast<int>(generator() % 4001) - 2000) /
                static_cast<float>(1 << generator() % 8));
    if (i % 8 == 2)
      value = generator() % 40;
    values.push_back(bytes == 8 ? value : value & ((Bits(1) << 8 * bytes) - 1));
  }
  return values;
}

std::vector<std::uint8_t> packed(const std::vector<Bits> &values, unsigned bytes) {
  std::vector<std::uint8_t> result(values.size() * bytes);
  for (std::size_t i = 0; i < values.size(); ++i)
    std::memcpy(&result[i * bytes], &values[i], bytes);
  return result;
}

void check(const Case &test) {
  std::string in = std::to_string(8 * test.in), out = std::to_string(8 * test.out);
  std::string body = ".reg .pred %q; .reg .b32 %r<4>; .reg .b" + in + " %a, %b, %c; .reg .b" + out +
                     " %d; .reg .b64 %rd<12>;\n"
                     "mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mad.lo.u32 %r0, %r1, 128, %r0;\n"
                     "mul.wide.u32 %rd0, %r0, " +
                     std::to_string(test.in) + "; mul.wide.u32 %rd1, %r0, " + std::to_string(test.out) +
                     ";\n";
  for (unsigned i = 0; i < 3; ++i) {
    std::string n = std::to_string(i), at = std::to_string(i + 4);
    body += "ld.param.u64 %rd" + n + "0, [p" + n + "]; add.u64 %rd" + at + ", %rd" + n +
            "0, %rd0; ld.global.b" + in + " %" + "abc"[i] + ", [%rd" + at + "];\n";
  }
  body =
      std::string(body).replace(body.find(".reg .b64 %rd<12>"), 17, ".reg .b64 %rd<12>, %rd00, %rd10, %rd20");
  body +=
      test.text + "\nld.param.u64 %rd8, [p3]; add.u64 %rd9, %rd8, %rd1; st.global.b" + out + " [%rd9], %d;";
  std::unique_ptr<Module> module = loaded(kernelText(body, 4));
  ASSERT_TRUE(module) << test.text;
  std::vector<Bits> a = operands(test.in, 1), b = operands(test.in, 2), c = operands(test.in, 3);
  Device device;
  std::uint64_t da = device.put("a", packed(a, test.in)), db = device.put("b", packed(b, test.in)),
                dc = device.put("c", packed(c, test.in)),
                dd = device.put("d", std::vector<std::uint8_t>(a.size() * test.out));
  Report report =
      module->run(device.launch("f", {static_cast<unsigned>(a.size()) / 128}, {128}, da, db, dc, dd));
  ASSERT_TRUE(report.clean()) << test.text << describe(report);
  std::vector<std::uint8_t> found = device.get<std::uint8_t>(dd);
  for (std::size_t i = 0; i < a.size(); ++i) {
    Bits value = 0, expected = test.expected(a[i], b[i], c[i]);
    std::memcpy(&value, &found[i * test.out], test.out);
    expected = test.out == 8 ? expected : expected & ((Bits(1) << 8 * test.out) - 1);
    bool bothNan =
        test.number &&
        (test.out == 4   ? std::isnan(F(value)) && std::isnan(F(expected))
         : test.out == 8 ? std::isnan(bitCast<double>(value)) && std::isnan(bitCast<double>(expected))
                         : std::isnan(halfToFloat(static_cast<std::uint16_t>(value))) &&
                               std::isnan(halfToFloat(static_cast<std::uint16_t>(expected))));
    if (!bothNan) {
      ASSERT_EQ(value, expected) << test.text << std::hex << "\n  a " << a[i] << " b " << b[i] << " c "
                                 << c[i];
    }
  }
}

/// Bit by bit, as the manual defines bfe.
Bits field(Bits a, Bits position, Bits length, bool sign, unsigned bits) {
  position &= 255;
  length &= 255;
  unsigned top = static_cast<unsigned>(std::min<Bits>(position + length - 1, bits - 1));
  bool fill = sign && length && (a >> top & 1);
  Bits result = 0;
  for (unsigned i = 0; i < bits; ++i)
    result |= Bits(i < length && position + i < bits ? a >> (position + i) & 1 : fill) << i;
  return result;
}

TEST(Instruction, IntegerArithmetic) {
  auto divide = [](Bits a, Bits b) { return b == 0 ? ~Bits(0) : Bits(std::int64_t(S(a)) / S(b)); };
  for (const Case &test : std::vector<Case>{
           {"add.s32 %d, %a, %b;", 4, 4, [](Bits a, Bits b, Bits) { return a + b; }},
           {"add.sat.s32 %d, %a, %b;", 4, 4,
            [](Bits a, Bits b, Bits) {
              return Bits(std::clamp<std::int64_t>(std::int64_t(S(a)) + S(b), INT32_MIN, INT32_MAX));
            }},
           {"sub.u64 %d, %a, %b;", 8, 8, [](Bits a, Bits b, Bits) { return a - b; }},
           {"sub.s16 %d, %a, %b;", 2, 2, [](Bits a, Bits b, Bits) { return a - b; }},
           {"mul.lo.s32 %d, %a, %b;", 4, 4, [](Bits a, Bits b, Bits) { return a * b; }},
           {"mul.hi.s32 %d, %a, %b;", 4, 4,
            [](Bits a, Bits b, Bits) { return Bits(std::int64_t(S(a)) * S(b) >> 32); }},
           {"mul.hi.u32 %d, %a, %b;", 4, 4, [](Bits a, Bits b, Bits) { return a * b >> 32; }},
           {"mul.hi.u64 %d, %a, %b;", 8, 8,
            [](Bits a, Bits b, Bits) { return Bits((unsigned __int128)a * b >> 64); }},
           {"mul.hi.s64 %d, %a, %b;", 8, 8,
            [](Bits a, Bits b, Bits) { return Bits((__int128)L(a) * L(b) >> 64); }},
           {"mul.wide.s32 %d, %a, %b;", 4, 8,
            [](Bits a, Bits b, Bits) { return Bits(std::int64_t(S(a)) * S(b)); }},
           {"mul.wide.u16 %d, %a, %b;", 2, 4, [](Bits a, Bits b, Bits) { return a * b; }},
           {"mad.lo.s64 %d, %a, %b, %c;", 8, 8, [](Bits a, Bits b, Bits c) { return a * b + c; }},
           {"mad.hi.u32 %d, %a, %b, %c;", 4, 4, [](Bits a, Bits b, Bits c) { return (a * b >> 32) + c; }},
           {"mul24.lo.s32 %d, %a, %b;", 4, 4,
            [](Bits a, Bits b, Bits) { return Bits(std::int64_t(S(a << 8) >> 8) * (S(b << 8) >> 8)); }},
           {"mad24.hi.u32 %d, %a, %b, %c;", 4, 4,
            [](Bits a, Bits b, Bits c) { return ((a & 0xffffff) * (b & 0xffffff) >> 16) + c; }},
           {"div.s32 %d, %a, %b;", 4, 4, [=](Bits a, Bits b, Bits) { return divide(a, b); }},
           {"div.u64 %d, %a, %b;", 8, 8, [](Bits a, Bits b, Bits) { return b ? a / b : ~Bits(0); }},
           {"rem.s32 %d, %a, %b;", 4, 4,
            [](Bits a, Bits b, Bits) { return S(b) == 0 ? a : Bits(std::int64_t(S(a)) % S(b)); }},
           {"min.s32 %d, %a, %b;", 4, 4, [](Bits a, Bits b, Bits) { return Bits(std::min(S(a), S(b))); }},
           {"max.u16 %d, %a, %b;", 2, 2, [](Bits a, Bits b, Bits) { return std::max(a, b); }},
           {"max.s64 %d, %a, %b;", 8, 8, [](Bits a, Bits b, Bits) { return Bits(std::max(L(a), L(b))); }},
           {"abs.s32 %d, %a;", 4, 4, [](Bits a, Bits, Bits) { return S(a) < 0 ? 0 - a : a; }},
           {"add.s16x2 %d, %a, %b;", 4, 4,
            [](Bits a, Bits b, Bits) { return ((a + b) & 0xffff) | ((a >> 16) + (b >> 16)) << 16; }},
           {"dp4a.s32.u32 %d, %a, %b, %c;", 4, 4,
            [](Bits a, Bits b, Bits c) {
              for (int i = 0; i < 32; i += 8)
                c += Bits(std::int64_t(std::int8_t(a >> i)) * std::int64_t(b >> i & 255));
              return c;
            }},
       })
    check(test);
}

TEST(Instruction, Carries) {
  for (const Case &test : std::vector<Case>{
           {"add.cc.u32 %r2, %a, %b; addc.u32 %d, %c, 0;", 4, 4,
            [](Bits a, Bits b, Bits c) { return c + ((a + b) >> 32); }},
           {"add.cc.s32 %r2, %a, %b; addc.cc.u32 %r2, %c, %a; addc.u32 %d, 0, 0;", 4, 4,
            [](Bits a, Bits b, Bits c) { return (c + a + ((a + b) >> 32)) >> 32; }},
           {"sub.cc.u32 %r2, %a, %b; subc.u32 %d, %c, 0;", 4, 4,
            [](Bits a, Bits b, Bits c) { return c - Bits(a < b); }},
           {"sub.cc.u32 %r2, %a, %b; subc.cc.u32 %r2, %b, %c; subc.u32 %d, 0, 0;", 4, 4,
            [](Bits a, Bits b, Bits c) { return Bits(0) - Bits(b < c + Bits(a < b)); }},
           {"mad.lo.cc.u32 %r2, %a, %b, %c; madc.hi.u32 %d, %a, %b, 0;", 4, 4,
            [](Bits a, Bits b, Bits c) { return (a * b + c) >> 32; }},
           {"mad.hi.cc.u32 %r2, %a, %b, %c; addc.u32 %d, 0, 0;", 4, 4,
            [](Bits a, Bits b, Bits c) { return ((a * b >> 32) + c) >> 32; }},
           {"add.cc.u64 %rd2, %a, %b; addc.u64 %d, %c, 0;", 8, 8,
            [](Bits a, Bits b, Bits c) { return c + Bits(a + b < a); }},
       })
    check(test);
}

TEST(Instruction, BitsAndShifts) {
  auto ones = [](Bits a) { return Bits(__builtin_popcountll(a)); };
  for (const Case &test : std::vector<Case>{
           {"shl.b32 %d, %a, %b;", 4, 4, [](Bits a, Bits b, Bits) { return b > 31 ? 0 : a << b; }},
           {"shr.u32 %d, %a, %b;", 4, 4, [](Bits a, Bits b, Bits) { return b > 31 ? 0 : a >> b; }},
           {"shr.s32 %d, %a, %b;", 4, 4,
            [](Bits a, Bits b, Bits) { return Bits(S(a) >> std::min<Bits>(b, 31)); }},
           {"shf.l.wrap.b32 %d, %a, %b, %c;", 4, 4,
            [](Bits a, Bits b, Bits c) { return (b << 32 | a) << (c & 31) >> 32; }},
           {"shf.l.clamp.b32 %d, %a, %b, %c;", 4, 4,
            [](Bits a, Bits b, Bits c) { return c > 31 ? a : (b << 32 | a) << c >> 32; }},
           {"shf.r.wrap.b32 %d, %a, %b, %c;", 4, 4,
            [](Bits a, Bits b, Bits c) { return (b << 32 | a) >> (c & 31); }},
           {"shf.r.clamp.b32 %d, %a, %b, %c;", 4, 4,
            [](Bits a, Bits b, Bits c) { return (b << 32 | a) >> std::min<Bits>(c, 32); }},
           {"lop3.b32 %d, %a, %b, %c, 0x96;", 4, 4, [](Bits a, Bits b, Bits c) { return a ^ b ^ c; }},
           {"lop3.b32 %d, %a, %b, %c, 0xe8;", 4, 4,
            [](Bits a, Bits b, Bits c) { return (a & b) | (a & c) | (b & c); }},
           {"lop3.b32 %d, %a, %b, %c, 0xca;", 4, 4,
            [](Bits a, Bits b, Bits c) { return (a & b) | (~a & c); }},
           {"cnot.b32 %d, %a;", 4, 4, [](Bits a, Bits, Bits) { return Bits(a == 0); }},
           {"popc.b64 %d, %a;", 8, 4, [=](Bits a, Bits, Bits) { return ones(a); }},
           {"clz.b32 %d, %a;", 4, 4,
            [](Bits a, Bits, Bits) {
              Bits n = 0;
              while (n < 32 && !(a >> (31 - n) & 1))
                ++n;
              return n;
            }},
           {"clz.b64 %d, %a;", 8, 4,
            [](Bits a, Bits, Bits) {
              Bits n = 0;
              while (n < 64 && !(a >> (63 - n) & 1))
                ++n;
              return n;
            }},
           {"brev.b32 %d, %a;", 4, 4,
            [](Bits a, Bits, Bits) {
              Bits r = 0;
              for (int i = 0; i < 32; ++i)
                r |= (a >> i & 1) << (31 - i);
              return r;
            }},
           {"brev.b64 %d, %a;", 8, 8,
            [](Bits a, Bits, Bits) {
              Bits r = 0;
              for (int i = 0; i < 64; ++i)
                r |= (a >> i & 1) << (63 - i);
              return r;
            }},
           {"bfind.u32 %d, %a;", 4, 4,
            [](Bits a, Bits, Bits) { return a ? Bits(std::ilogb(double(a))) : ~Bits(0); }},
           {"bfind.s32 %d, %a;", 4, 4,
            [](Bits a, Bits, Bits) {
              Bits m = S(a) < 0 ? ~a & 0xffffffff : a;
              return m ? Bits(std::ilogb(double(m))) : ~Bits(0);
            }},
           {"bfind.shiftamt.u32 %d, %a;", 4, 4,
            [](Bits a, Bits, Bits) { return a ? 31 - Bits(std::ilogb(double(a))) : ~Bits(0); }},
           {"bfe.u32 %d, %a, %b, %c;", 4, 4,
            [](Bits a, Bits b, Bits c) { return field(a, b, c, false, 32); }},
           {"bfe.s32 %d, %a, %b, %c;", 4, 4, [](Bits a, Bits b, Bits c) { return field(a, b, c, true, 32); }},
           {"bfi.b32 %d, %a, %b, %c, 7;", 4, 4,
            [](Bits a, Bits b, Bits c) {
              for (Bits i = 0; i < 7; ++i)
                if ((c & 255) + i < 32)
                  b = (b & ~(Bits(1) << ((c & 255) + i))) | (a >> i & 1) << ((c & 255) + i);
              return b;
            }},
           {"prmt.b32 %d, %a, %b, %c;", 4, 4,
            [](Bits a, Bits b, Bits c) {
              Bits r = 0;
              for (int i = 0; i < 4; ++i) {
                Bits byte = (b << 32 | a) >> 8 * (c >> 4 * i & 7) & 255;
                r |= (c >> 4 * i & 8 ? (byte >> 7) * 255 : byte) << 8 * i;
              }
              return r;
            }},
           {"mov.b64 {%r2, %r3}, %a; mov.b64 %d, {%r3, %r2};", 8, 8,
            [](Bits a, Bits, Bits) { return a << 32 | a >> 32; }},
       })
    check(test);
}

TEST(Instruction, Comparisons) {
  auto truth = [](const char *comparison, const char *type, unsigned bytes,
                  std::function<bool(Bits, Bits)> holds) {
    return Case{std::string("setp.") + comparison + "." + type + " %q, %a, %b; selp.b32 %d, 1, 0, %q;", bytes,
                4, [holds](Bits a, Bits b, Bits) { return Bits(holds(a, b)); }};
  };
  auto nan = [](Bits a, Bits b) { return std::isnan(F(a)) || std::isnan(F(b)); };
  for (const Case &test :
       {truth("lt", "s32", 4, [](Bits a, Bits b) { return S(a) < S(b); }),
        truth("lt", "u32", 4, [](Bits a, Bits b) { return a < b; }),
        truth("hs", "u64", 8, [](Bits a, Bits b) { return a >= b; }),
        truth("ne", "b16", 2, [](Bits a, Bits b) { return a != b; }),
        truth("eq", "f32", 4, [](Bits a, Bits b) { return F(a) == F(b); }),
        truth("ne", "f32", 4, [=](Bits a, Bits b) { return F(a) != F(b) && !nan(a, b); }),
        truth("neu", "f32", 4, [](Bits a, Bits b) { return F(a) != F(b); }),
        truth("equ", "f32", 4, [=](Bits a, Bits b) { return F(a) == F(b) || nan(a, b); }),
        truth("ltu", "f32", 4, [=](Bits a, Bits b) { return F(a) < F(b) || nan(a, b); }),
        truth("leu", "f32", 4, [=](Bits a, Bits b) { return F(a) <= F(b) || nan(a, b); }),
        truth("gtu", "f32", 4, [=](Bits a, Bits b) { return F(a) > F(b) || nan(a, b); }),
        truth("geu", "f32", 4, [=](Bits a, Bits b) { return F(a) >= F(b) || nan(a, b); }),
        truth("num", "f32", 4, [=](Bits a, Bits b) { return !nan(a, b); }), truth("nan", "f32", 4, nan),
        truth("le", "f16", 2,
              [](Bits a, Bits b) {
                return decode(std::uint32_t(a), kHalf) <= decode(std::uint32_t(b), kHalf);
              }),
        truth("gt", "f64", 8, [](Bits a, Bits b) { return bitCast<double>(a) > bitCast<double>(b); })})
    check(test);
  check({"setp.lt.u32 %q, %a, 100; setp.gt.and.u32 %q, %b, 9, %q; selp.b32 %d, %a, %b, %q;", 4, 4,
         [](Bits a, Bits b, Bits) { return a < 100 && b > 9 ? a : b; }});
  check({"{ .reg .pred %x, %y; setp.lt.u32 %x|%y, %a, %b; selp.b32 %d, 2, 0, %x; @%y add.u32 %d, %d, 1; }", 4,
         4, [](Bits a, Bits b, Bits) { return Bits(a < b ? 2 : 1); }});
  check(
      {"set.lt.u32.f32 %d, %a, %b;", 4, 4, [](Bits a, Bits b, Bits) { return F(a) < F(b) ? ~Bits(0) : 0; }});
  check({"set.ge.f32.s32 %d, %a, %b;", 4, 4, [](Bits a, Bits b, Bits) { return S(a) >= S(b) ? B(1) : 0; }});
  check({"slct.b32.s32 %d, %a, %b, %c;", 4, 4, [](Bits a, Bits b, Bits c) { return S(c) >= 0 ? a : b; }});
  check({"testp.subnormal.f32 %q, %a; selp.b32 %d, 1, 0, %q;", 4, 4,
         [](Bits a, Bits, Bits) { return Bits(std::fpclassify(F(a)) == FP_SUBNORMAL); }});
  check({"testp.finite.f32 %q, %a; selp.b32 %d, 1, 0, %q;", 4, 4,
         [](Bits a, Bits, Bits) { return Bits(std::isfinite(F(a))); }});
}

TEST(Instruction, FloatArithmetic) {
  auto flush = [](float x) { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x; };
  auto half = [](Bits a) { return decode(std::uint32_t(a & 0xffff), kHalf); };
  auto bfloat = [](Bits a) { return decode(std::uint32_t(a & 0xffff), kBFloat); };
  for (const Case &test : std::vector<Case>{
           {"add.f32 %d, %a, %b;", 4, 4, [](Bits a, Bits b, Bits) { return B(F(a) + F(b)); }, true},
           {"add.ftz.f32 %d, %a, %b;", 4, 4,
            [=](Bits a, Bits b, Bits) { return B(flush(flush(F(a)) + flush(F(b)))); }, true},
           {"sub.rz.f32 %d, %a, %b;", 4, 4,
            [](Bits a, Bits b, Bits) {
              return B(directed(Directed::Add, Rounding::Zero, F(a), -F(b), 0.0f));
            },
            true},
           {"mul.sat.f32 %d, %a, %b;", 4, 4,
            [](Bits a, Bits b, Bits) {
              float x = F(a) * F(b);
              return B(x > 0 ? std::min(x, 1.0f) : 0);
            }},
           {"fma.rn.f32 %d, %a, %b, %c;", 4, 4,
            [](Bits a, Bits b, Bits c) { return B(std::fma(F(a), F(b), F(c))); }, true},
           {"fma.rn.f64 %d, %a, %b, %c;", 8, 8,
            [](Bits a, Bits b, Bits c) {
              return bitCast<Bits>(std::fma(bitCast<double>(a), bitCast<double>(b), bitCast<double>(c)));
            },
            true},
           {"div.rn.f32 %d, %a, %b;", 4, 4, [](Bits a, Bits b, Bits) { return B(F(a) / F(b)); }, true},
           {"sqrt.rn.f32 %d, %a;", 4, 4, [](Bits a, Bits, Bits) { return B(std::sqrt(F(a))); }, true},
           {"min.f32 %d, %a, %b;", 4, 4,
            [](Bits a, Bits b, Bits) {
              return std::isnan(F(a))   ? b
                     : std::isnan(F(b)) ? a
                     : F(a) == F(b)     ? (a | b)
                     : F(a) < F(b)      ? a
                                        : b;
            },
            true},
           {"max.NaN.f32 %d, %a, %b;", 4, 4,
            [](Bits a, Bits b, Bits) {
              return std::isnan(F(a)) || std::isnan(F(b)) ? Bits(0x7fffffff)
                     : F(a) == F(b)                       ? (a & b)
                     : F(a) > F(b)                        ? a
                                                          : b;
            }},
           {"neg.f32 %d, %a;", 4, 4, [](Bits a, Bits, Bits) { return a ^ 0x80000000; }},
           {"abs.f64 %d, %a;", 8, 8, [](Bits a, Bits, Bits) { return a & 0x7fffffffffffffff; }},
           {"copysign.f32 %d, %a, %b;", 4, 4,
            [](Bits a, Bits b, Bits) { return (a & 0x80000000) | (b & 0x7fffffff); }},
           {"add.f16 %d, %a, %b;", 2, 2,
            [=](Bits a, Bits b, Bits) { return Bits(encode(half(a) + half(b), kHalf)); }, true},
           {"fma.rn.f16 %d, %a, %b, %c;", 2, 2,
            [=](Bits a, Bits b, Bits c) { return Bits(encode(fmaToOdd(half(a), half(b), half(c)), kHalf)); },
            true},
           {"mul.bf16 %d, %a, %b;", 2, 2,
            [=](Bits a, Bits b, Bits) { return Bits(encode(bfloat(a) * bfloat(b), kBFloat)); }},
           {"mul.f16x2 %d, %a, %b;", 4, 4,
            [=](Bits a, Bits b, Bits) {
              return Bits(encode(half(a >> 16) * half(b >> 16), kHalf)) << 16 |
                     encode(half(a) * half(b), kHalf);
            }},
           {"fma.rn.f32x2 %d, %a, %b, %c;", 8, 8,
            [](Bits a, Bits b, Bits c) {
              auto one = [](float x) { return std::isnan(x) ? Bits(0x7fffffff) : B(x); };
              return one(std::fma(F(a), F(b), F(c))) | one(std::fma(F(a >> 32), F(b >> 32), F(c >> 32)))
                                                           << 32;
            }},
           {"add.rn.f32.f16 %d, %h, %a; ", 4, 4, [](Bits a, Bits, Bits) { return B(F(a) + 1.5f); }, true},
           {"fma.rn.f32.f16 %d, %h, %h, %a; ", 4, 4,
            [](Bits a, Bits, Bits) { return B(std::fma(1.5f, 1.5f, F(a))); }, true},
       }) {
    Case with = test;
    if (test.text.find("%h") != std::string::npos)
      with.text = "{ .reg .b16 %h; mov.b16 %h, 0x3e00; " + test.text + "}";
    check(with);
  }
}

TEST(Instruction, Conversions) {
  auto clamped = [](double x, double low, double high) {
    return std::isnan(x) ? 0 : std::clamp(x, low, high);
  };
  for (const Case &test : std::vector<Case>{
           {"cvt.rzi.s32.f32 %d, %a;", 4, 4,
            [=](Bits a, Bits, Bits) {
              return Bits(std::int64_t(clamped(std::trunc(F(a)), INT32_MIN, INT32_MAX)));
            }},
           {"cvt.rni.u32.f32 %d, %a;", 4, 4,
            [=](Bits a, Bits, Bits) { return Bits(clamped(std::nearbyint(F(a)), 0, UINT32_MAX)); }},
           {"cvt.rmi.s64.f32 %d, %a;", 4, 8,
            [](Bits a, Bits, Bits) {
              double x = std::floor(F(a));
              return std::isnan(x)  ? Bits(1) << 63
                     : x >= 0x1p63  ? ~Bits(0) >> 1
                     : x <= -0x1p63 ? Bits(1) << 63
                                    : Bits(std::int64_t(x));
            }},
           {"cvt.rzi.u8.f32 %r2, %a; mov.b32 %d, %r2;", 4, 4,
            [=](Bits a, Bits, Bits) { return Bits(clamped(std::trunc(F(a)), 0, 255)); }},
           {"cvt.rpi.f32.f32 %d, %a;", 4, 4, [](Bits a, Bits, Bits) { return B(std::ceil(F(a))); }, true},
           {"cvt.sat.f32.f32 %d, %a;", 4, 4,
            [](Bits a, Bits, Bits) { return B(F(a) > 0 ? std::min(F(a), 1.0f) : 0); }},
           {"cvt.rn.f32.s32 %d, %a;", 4, 4, [](Bits a, Bits, Bits) { return B(static_cast<float>(S(a))); }},
           {"cvt.rn.f32.u64 %d, %a;", 8, 4, [](Bits a, Bits, Bits) { return B(static_cast<float>(a)); }},
           {"cvt.rz.f32.s64 %d, %a;", 8, 4,
            [](Bits a, Bits, Bits) {
              float x = static_cast<float>(L(a));
              // Back to the side of zero where rounding went beyond.
              if (std::abs(static_cast<long double>(x)) > std::abs(static_cast<long double>(L(a))))
                x = std::nextafter(x, 0.0f);
              return B(x);
            }},
           {"cvt.rn.f32.f64 %d, %a;", 8, 4,
            [](Bits a, Bits, Bits) { return B(static_cast<float>(bitCast<double>(a))); }, true},
           {"cvt.f64.f32 %d, %a;", 4, 8,
            [](Bits a, Bits, Bits) { return bitCast<Bits>(static_cast<double>(F(a))); }, true},
           {"cvt.rn.f16.f32 %d, %a;", 4, 2, [](Bits a, Bits, Bits) { return Bits(encode(F(a), kHalf)); },
            true},
           {"cvt.rn.relu.bf16.f32 %d, %a;", 4, 2,
            [](Bits a, Bits, Bits) { return Bits(F(a) <= 0 ? 0 : encode(F(a), kBFloat)); }},
           {"cvt.rna.tf32.f32 %d, %a;", 4, 4,
            [](Bits a, Bits, Bits) {
              return std::isnan(F(a)) ? Bits(0x7fffe000) : (a + 0x1000) & 0xffffe000;
            },
            true},
           {"cvt.f32.bf16 %d, %a;", 2, 4, [](Bits a, Bits, Bits) { return a << 16; }, true},
           {"cvt.u32.u16 %d, %a;", 2, 4, [](Bits a, Bits, Bits) { return a; }},
           {"cvt.s32.s8 %d, %a;", 4, 4,
            [](Bits a, Bits, Bits) { return Bits(std::int64_t(std::int8_t(a))); }},
           {"cvt.s16.s8 %d, %a;", 2, 2,
            [](Bits a, Bits, Bits) { return Bits(std::int64_t(std::int8_t(a))); }},
           {"cvt.u16.u64 %d, %a;", 8, 2, [](Bits a, Bits, Bits) { return a; }},
           {"cvt.s64.s32 %d, %a;", 4, 8, [](Bits a, Bits, Bits) { return Bits(std::int64_t(S(a))); }},
           {"cvt.sat.u8.s32 %d, %a;", 4, 4,
            [](Bits a, Bits, Bits) { return Bits(std::clamp(S(a), 0, 255)); }},
           {"cvt.sat.s16.u32 %d, %a;", 4, 4, [](Bits a, Bits, Bits) { return std::min<Bits>(a, 32767); }},
           {"cvt.sat.s32.s64 %d, %a;", 8, 4,
            [](Bits a, Bits, Bits) { return Bits(std::clamp<std::int64_t>(L(a), INT32_MIN, INT32_MAX)); }},
           {"cvt.rn.f16x2.f32 %d, %a, %b;", 4, 4,
            [](Bits a, Bits b, Bits) { return Bits(encode(F(a), kHalf)) << 16 | encode(F(b), kHalf); }},
           {"cvt.rn.satfinite.e4m3x2.f32 %d, %a, %b;", 4, 2,
            [](Bits a, Bits b, Bits) {
              return Bits(encode(F(a), kE4M3, Rounding::NearestEven, true)) << 8 |
                     encode(F(b), kE4M3, Rounding::NearestEven, true);
            }},
           {"cvt.rn.f16x2.e5m2x2 %d, %a;", 2, 4,
            [](Bits a, Bits, Bits) {
              return Bits(encode(decode(std::uint32_t(a >> 8), kE5M2), kHalf)) << 16 |
                     encode(decode(std::uint32_t(a & 255), kE5M2), kHalf);
            }},
       })
    check(test);
}

// The places of values in matrices, as the manual gives them value by value.
struct Place {
  unsigned row, column;
};
struct Shape {
  const char *instruction;
  unsigned depth, bits;
  const Format *format;
  std::function<Place(unsigned group, unsigned place, unsigned i)> a, b;
};

class Multiply : public testing::TestWithParam<Shape> {};

TEST_P(Multiply, IsThatOfPlainMatrices) {
  const Shape &shape = GetParam();
  unsigned k = shape.depth, per = 32 / shape.bits, countA = 16 * k / 32 / per, countB = 8 * k / 32 / per;
  std::mt19937 generator(8);
  std::vector<float> a(16 * k), b(k * 8), c(16 * 8), expected(16 * 8);
  for (auto *matrix : {&a, &b, &c})
    for (float &value : *matrix)
      value = static_cast<float>(static_cast<int>(generator() % 9) - 4);
  for (unsigned i = 0; i < 16; ++i)
    for (unsigned j = 0; j < 8; ++j) {
      expected[i * 8 + j] = c[i * 8 + j];
      for (unsigned l = 0; l < k; ++l)
        expected[i * 8 + j] += a[i * k + l] * b[l * 8 + j];
    }
  auto code = [&](float value) { return encode(value, *shape.format) << (shape.format == &kTf32 ? 13 : 0); };
  std::vector<std::uint32_t> registers(32 * (countA + countB + 4));
  for (unsigned lane = 0; lane < 32; ++lane) {
    std::uint32_t *mine = &registers[lane * (countA + countB + 4)];
    for (unsigned i = 0; i < countA * per; ++i) {
      Place at = shape.a(lane / 4, lane % 4, i);
      mine[i / per] |= code(a[at.row * k + at.column]) << shape.bits * (i % per) % 32;
    }
    for (unsigned i = 0; i < countB * per; ++i) {
      Place at = shape.b(lane / 4, lane % 4, i);
      mine[countA + i / per] |= code(b[at.row * 8 + at.column]) << shape.bits * (i % per) % 32;
    }
    for (unsigned i = 0; i < 4; ++i)
      std::memcpy(&mine[countA + countB + i], &c[(lane / 4 + (i < 2 ? 0 : 8)) * 8 + lane % 4 * 2 + (i & 1)],
                  4);
  }
  std::string body = ".reg .b32 %r<40>; .reg .b64 %rd<4>; mov.u32 %r0, %tid.x; ld.param.u64 %rd0, [p0]; "
                     "ld.param.u64 %rd1, [p1];\n"
                     "mul.wide.u32 %rd2, %r0, " +
                     std::to_string(4 * (countA + countB + 4)) +
                     "; add.u64 %rd2, %rd0, %rd2;\n"
                     "mul.wide.u32 %rd3, %r0, 16; add.u64 %rd3, %rd1, %rd3;\n";
  auto list = [](unsigned first, unsigned count) {
    std::string text = "{";
    for (unsigned i = 0; i < count; ++i)
      text += (i ? ", %r" : "%r") + std::to_string(first + i);
    return text + "}";
  };
  for (unsigned i = 0; i < countA + countB + 4; ++i)
    body += "ld.global.b32 %r" + std::to_string(i + 1) + ", [%rd2+" + std::to_string(4 * i) + "];\n";
  body += std::string(shape.instruction) + " " + list(30, 4) + ", " + list(1, countA) + ", " +
          list(1 + countA, countB) + ", " + list(1 + countA + countB, 4) + ";\nst.global.v4.b32 [%rd3], " +
          list(30, 4) + ";";
  std::unique_ptr<Module> module = loaded(kernelText(body, 2));
  ASSERT_TRUE(module);
  Device device;
  std::uint64_t in = device.put("in", registers), out = device.put("out", std::vector<float>(128));
  Report report = module->run(device.launch("f", {1}, {32}, in, out));
  ASSERT_TRUE(report.clean()) << describe(report);
  std::vector<float> found = device.get<float>(out);
  for (unsigned lane = 0; lane < 32; ++lane)
    for (unsigned i = 0; i < 4; ++i)
      EXPECT_EQ(found[lane * 4 + i], expected[(lane / 4 + (i < 2 ? 0 : 8)) * 8 + lane % 4 * 2 + (i & 1)]);
}

Place halvesA(unsigned group, unsigned place, unsigned i) {
  return {(i < 2 || (i >= 4 && i < 6)) ? group : group + 8, place * 2 + (i & 1) + (i >= 4 ? 8 : 0)};
}
Place halvesB(unsigned group, unsigned place, unsigned i) {
  return {place * 2 + (i & 1) + (i >= 2 ? 8 : 0), group};
}
Place wordsA(unsigned group, unsigned place, unsigned i) {
  return {i == 0 || i == 2 ? group : group + 8, i < 2 ? place : place + 4};
}
Place wordsB(unsigned group, unsigned place, unsigned i) {
  return {i == 0 ? place : place + 4, group};
}
Place bytesA(unsigned group, unsigned place, unsigned i) {
  return {i < 4 || (i >= 8 && i < 12) ? group : group + 8, place * 4 + (i & 3) + (i >= 8 ? 16 : 0)};
}
Place bytesB(unsigned group, unsigned place, unsigned i) {
  return {place * 4 + (i & 3) + (i >= 4 ? 16 : 0), group};
}
INSTANTIATE_TEST_SUITE_P(
    Shapes, Multiply,
    testing::Values(
        Shape{"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", 16, 16, &kBFloat, halvesA, halvesB},
        Shape{"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", 16, 16, &kHalf, halvesA, halvesB},
        Shape{"mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32", 8, 16, &kHalf, halvesA, halvesB},
        Shape{"mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", 8, 32, &kTf32, wordsA, wordsB},
        Shape{"mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32", 4, 32, &kTf32, wordsA, wordsB},
        Shape{"mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32", 32, 8, &kE4M3, bytesA, bytesB},
        Shape{"mma.sync.aligned.m16n8k32.row.col.f32.e5m2.e5m2.f32", 32, 8, &kE5M2, bytesA, bytesB}),
    [](const auto &info) {
      std::string name = info.param.instruction + 17;
      std::replace(name.begin(), name.end(), '.', '_');
      return name;
    });

} // namespace
} // namespace colossal::ptx
