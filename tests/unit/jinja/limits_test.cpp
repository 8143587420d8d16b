// Bounds and errors: what a hostile template or context gets instead of a hang or a crash.
#include <gtest/gtest.h>

#include <ctime>
#include <thread>

#include "sanitized.h"
#include "template_test.h"

namespace minfer {
namespace {

std::string repeat(std::string_view piece, size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i) text += piece;
  return text;
}

/// A context of lists nested `depth` deep under "x".
boost::json::object nested_context(size_t depth) {
  boost::json::value value = "leaf";
  for (size_t i = 0; i < depth; ++i) value = boost::json::array{std::move(value)};
  return {{"x", std::move(value)}};
}

struct Hostile {
  const char* name;
  std::string source;
  const char* message;  ///< part of what the error says
};

class HostileTemplate : public testing::TestWithParam<Hostile> {};

TEST_P(HostileTemplate, EndsWithAnErrorInTime) {
  const std::clock_t begin = std::clock();  // processor time: the machine may be busy
  const std::string error = failure(GetParam().source);
  const auto seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  EXPECT_NE(error.find(GetParam().message), std::string::npos) << error.substr(0, 300);
  EXPECT_LT(seconds, kSanitized ? 200 : 20);
}

const std::string kLoops = "{% for a in range(99999) %}{% for b in range(99999) %}";
constexpr const char* kBytes = "bytes of text";
constexpr const char* kSteps = "steps";
constexpr const char* kDeep = "deeper than";
constexpr const char* kLarge = "too large";

INSTANTIATE_TEST_SUITE_P(
    Rendering, HostileTemplate,
    testing::Values(
        Hostile{"endless_loop", kLoops + "{% endfor %}{% endfor %}", kSteps},
        Hostile{"endless_output", kLoops + "xxxxxxxxxxxxxxxx{% endfor %}{% endfor %}", "than"},
        Hostile{"recursive_macro", "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", kDeep},
        Hostile{"recursive_loop", "{% for a in [1] recursive %}{{ loop([1]) }}{% endfor %}", kDeep},
        Hostile{"recursive_caller",
                "{% macro m() %}{% call m() %}{% endcall %}{{ caller() }}{% endmacro %}{{ m() }}",
                kDeep},
        Hostile{"string_times", "{{ 'ab' * 10 ** 12 }}", kBytes},
        Hostile{"string_times_huge", "{{ 'ab' * 10 ** 30 }}", kBytes},
        Hostile{"list_times", "{{ [1] * 10 ** 12 }}", kBytes},
        Hostile{"list_times_huge", "{{ [1] * 10 ** 37 }}", kBytes},
        Hostile{"power", "{{ 10 ** 10 ** 10 }}", kLarge},
        Hostile{"factorial",
                "{% set ns = namespace(n=1) %}{% for i in range(1, 99) %}"
                "{% set ns.n = ns.n * i %}{% endfor %}",
                kLarge},
        Hostile{"range", "{{ range(10 ** 15) }}", "range too big"},
        Hostile{"range_overflow", "{{ range(-(2 ** 62), 2 ** 62)|list }}", "range too big"},
        Hostile{"doubling",
                "{% set ns = namespace(s='x') %}{% for i in range(99) %}"
                "{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
                kBytes},
        Hostile{"doubling_list",
                "{% set ns = namespace(l=[1]) %}{% for i in range(99) %}"
                "{% set ns.l = ns.l + ns.l %}{% endfor %}",
                kBytes},
        Hostile{"shared_structure",
                "{% set ns = namespace(l=[1]) %}{% for i in range(60) %}"
                "{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l }}",
                "than"},
        Hostile{"shared_json",
                "{% set ns = namespace(l=[1]) %}{% for i in range(60) %}"
                "{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l|tojson }}",
                "than"},
        Hostile{"shared_compare",
                "{% set ns = namespace(a=[1], b=[1]) %}{% for i in range(60) %}"
                "{% set ns.a = [ns.a, ns.a] %}{% set ns.b = [ns.b, ns.b] %}"
                "{% endfor %}{{ ns.a == ns.b }}",
                kSteps},
        Hostile{"shared_key",
                "{% set ns = namespace(a=(1,), b=(1,)) %}{% for i in range(60) %}"
                "{% set ns.a = (ns.a, ns.a) %}{% set ns.b = (ns.b, ns.b) %}"
                "{% endfor %}{{ {ns.a: 1}[ns.b] }}",
                kSteps},
        Hostile{"nested_values",
                "{% set ns = namespace(l=[]) %}{% for i in range(99999) %}"
                "{% set ns.l = [ns.l] %}{% endfor %}",
                kDeep},
        Hostile{"nested_dicts",
                "{% set ns = namespace(l={}) %}{% for i in range(99999) %}"
                "{% set ns.l = {1: ns.l} %}{% endfor %}",
                kDeep},
        Hostile{"nested_methods",
                "{% set ns = namespace(l={}) %}{% for i in range(99999) %}"
                "{% set ns.l = {1: ns.l.items} %}{% endfor %}",
                kDeep},
        Hostile{"nested_cyclers",
                "{% set ns = namespace(l=1) %}{% for i in range(99999) %}"
                "{% set ns.l = cycler(ns.l) %}{% endfor %}",
                "deep"},
        Hostile{"deep_namespaces",
                "{% set ns = namespace(l=1) %}{% for i in range(9999) %}"
                "{% set ns.l = namespace(l=ns.l) %}{% endfor %}{{ ns }}",
                "deep"},
        Hostile{"quadratic_find",
                "{% set s = 'a' * 4000000 %}{% set p = 'a' * 2000000 ~ 'b' %}"
                "{% for i in range(9999) %}{{ p in s }}{% endfor %}",
                kSteps},
        Hostile{"replace_growth", "{{ ('a' * 100000)|replace('a', 'b' * 10000) }}", kBytes},
        Hostile{"join_growth", "{{ range(99999)|join('b' * 10000) }}", kBytes},
        Hostile{"indent_growth", "{{ ('a\n' * 100000)|indent(100000) }}", kBytes},
        Hostile{"indent_json", "{{ [[1]]|tojson(indent=10 ** 11) }}", kBytes},
        Hostile{"width", "{{ '%99999999999d' % 1 }}", kBytes},
        Hostile{"star_width", "{{ '%*d' % (10 ** 12, 1) }}", kBytes},
        Hostile{"precision", "{{ '%.99999999f' % 1.5 }}", "precision"},
        Hostile{"format_width", "{{ '{:99999999999}'.format(1) }}", kBytes},
        Hostile{"center", "{{ 'a'|center(10 ** 13) }}", kBytes},
        Hostile{"zfill", "{{ 'a'.zfill(10 ** 13) }}", kBytes},
        Hostile{"expandtabs", "{{ '\t'.expandtabs(10 ** 13) }}", kBytes},
        Hostile{"batch", "{{ [1]|batch(10 ** 9, 1)|list }}", kBytes},
        Hostile{"slice", "{{ [1]|slice(10 ** 12)|list }}", "than"},
        Hostile{"characters", "{{ ('a' * 9000000)|list }}", kBytes},
        Hostile{"split", "{{ ('a ' * 9000000).split() }}", kBytes},
        Hostile{"captures",
                "{% macro m(n, t) %}{% if n %}{{ t }}{{ m(n - 1, t) }}{% endif %}{% endmacro %}"
                "{{ m(20, 'a' * 20000000) }}",
                kBytes},
        Hostile{"kwargs",
                "{% macro m() %}{{ kwargs }}{% endmacro %}{% set ns = namespace(d={}) %}"
                "{% for i in range(99999) %}{% set ns.d = dict(ns.d, **{'k' ~ i: i}) %}"
                "{% endfor %}{{ m(**ns.d) }}",
                "than"}),
    [](const auto& test) { return std::string(test.param.name); });

INSTANTIATE_TEST_SUITE_P(
    Parsing, HostileTemplate,
    testing::Values(
        Hostile{"parentheses", "{{ " + repeat("(", 100000) + repeat(")", 100000) + " }}", kDeep},
        Hostile{"lists", "{{ " + repeat("[", 100000) + repeat("]", 100000) + " }}", kDeep},
        Hostile{"dicts", "{{ " + repeat("{1:", 100000) + repeat("}", 100000) + " }}", kDeep},
        Hostile{"nots", "{{ " + repeat("not ", 100000) + "1 }}", kDeep},
        Hostile{"signs", "{{ " + repeat("-", 100000) + "1 }}", kDeep},
        Hostile{"attributes", "{{ a" + repeat(".a", 100000) + " }}", "levels"},
        Hostile{"subscripts", "{{ a" + repeat("[0]", 100000) + " }}", "levels"},
        Hostile{"calls", "{{ a" + repeat("()", 100000) + " }}", "levels"},
        Hostile{"filters", "{{ a" + repeat("|upper", 100000) + " }}", "levels"},
        Hostile{"tests", "{{ a" + repeat(" is eq(1)", 100000) + " }}", "levels"},
        Hostile{"test_arguments", "{{ a" + repeat(" is eq a", 100000) + " }}", "levels"},
        Hostile{"elses", "{{ " + repeat("1 if 0 else ", 100000) + "1 }}", kDeep},
        Hostile{"ifs", "{{ 1" + repeat(" if 1", 100000) + " }}", "levels"},
        Hostile{"targets", "{% set " + repeat("(", 100000) + repeat(")", 100000) + " = 1 %}",
                kDeep},
        Hostile{"blocks", repeat("{% if 1 %}", 100000), kDeep},
        Hostile{"macros", repeat("{% macro m() %}", 100000), kDeep},
        Hostile{"arguments", "{{ " + repeat("f(", 100000) + repeat(")", 100000) + " }}", kDeep},
        Hostile{"big_integer", "{{ " + repeat("9", 100000) + " }}", kLarge}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(Limits, LongFlatTemplatesAreFine) {
  EXPECT_EQ(failure("{{ 1" + repeat(" + 1", 20000) + " }}"), "");
  EXPECT_EQ(failure("{{ 1" + repeat(" ~ 1", 20000) + " }}"), "");
  EXPECT_EQ(failure("{{ 1" + repeat(" and 1", 20000) + " }}"), "");
  EXPECT_EQ(failure("{{ 1" + repeat(" <= 1", 20000) + " }}"), "");
  EXPECT_EQ(failure(repeat("{% if 1 %}x{% endif %}", 20000)), "");
  EXPECT_EQ(failure("{% if 0 %}" + repeat("{% elif 0 %}", 20000) + "{% endif %}"), "");
}

TEST(Limits, NestedMapsStayLazy) {
  EXPECT_EQ(failure("{{ 'a'|map(" + repeat("'map',", 5000) + "'upper')|list }}"), "");
}

TEST(Limits, DeepContextIsRefused) {
  EXPECT_EQ(failure("{{ x }}", nested_context(100)), "");
  EXPECT_NE(failure("{{ x }}", nested_context(5000)).find("nested deeper"), std::string::npos);
  EXPECT_EQ(failure("{{ y }}", nested_context(5000)), "");  // never looked at
}

TEST(Limits, AreTheCallers) {
  RenderLimits limits;
  limits.max_output_bytes = 4096;
  EXPECT_EQ(failure("{{ 'a' * 1000 }}", {}, limits), "");
  EXPECT_NE(failure("{{ 'a' * 5000 }}", {}, limits).find("4096 bytes"), std::string::npos);
  limits = {};
  limits.max_steps = 1000;
  EXPECT_EQ(failure("{% for i in range(100) %}{% endfor %}", {}, limits), "");
  EXPECT_NE(failure("{% for i in range(1000) %}{% endfor %}", {}, limits).find("1000 steps"),
            std::string::npos);
  limits = {};
  limits.max_depth = 10;
  EXPECT_NE(failure("{{ [[[[[[[[[[[[1]]]]]]]]]]]] }}", {}, limits).find("10 levels"),
            std::string::npos);
}

TEST(Limits, MemoryIsGivenBack) {
  // Each iteration makes a megabyte and drops it: far more in all than may be held at once.
  EXPECT_EQ(failure("{% for i in range(200) %}{% set s = 'a' * 1000000 %}{% endfor %}"), "");
  EXPECT_EQ(
      failure("{% for i in range(200) %}{% set s %}{{ 'a' * 1000000 }}{% endset %}{% endfor %}"),
      "");
}

TEST(Limits, CyclesAreHarmless) {
  EXPECT_EQ(marked("{% set ns = namespace() %}{% set ns.me = [ns, {'k': ns}] %}{{ ns.me|length }}"),
            "2");
  EXPECT_EQ(marked("{% set a = namespace() %}{% set b = namespace(a=a) %}{% set a.b = b %}{{ a }}"),
            "<Namespace {'b': <Namespace {'a': <Namespace {...}>}>}>");
  EXPECT_EQ(marked("{% set ns = namespace() %}{% for i in [1, 2] %}{% set ns.l = loop %}"
                   "{% macro m() %}{{ ns.l.index }}{% endmacro %}{% set ns.m = m %}{% endfor %}"
                   "{{ ns.l.index }}{{ ns.m() }}{{ ns.l.length }}"),
            "222");
  EXPECT_NE(marked("{% set ns = namespace() %}{% for i in [1] recursive %}{% set ns.l = loop %}"
                   "{% endfor %}{{ ns.l([1]) }}")
                .find("ERROR"),
            std::string::npos);
  EXPECT_EQ(
      failure(
          "{% macro m(c, n) %}{% macro g() %}{{ c }}{% endmacro %}"
          "{% if n %}{% set ns.g = g %}{% endif %}{% endmacro %}"
          "{% set ns = namespace(g=0) %}{% for i in range(5000) %}{{ m(ns.g, 1) }}{% endfor %}"),
      "");
}

TEST(Errors, NameLineAndReason) {
  const auto error = [](std::string_view source) { return failure(source); };
  EXPECT_EQ(error("a\nb\n{{ x.y }}"), "chat template, line 3: 'x' is undefined");
  EXPECT_EQ(error("\n{% if a %}\n"),
            "chat template, line 2: unexpected end of the template: 'if' is still open, expected "
            "'elif' or 'else' or 'endif'");
  EXPECT_EQ(error("{% foo %}"), "chat template, line 1: unknown or misplaced tag 'foo'");
  EXPECT_EQ(error("\n{{ 1|foo }}"), "chat template, line 2: there is no filter named 'foo'");
  EXPECT_EQ(error("{{ raise_exception('Roles must\nalternate') }}"),
            "chat template, line 1: Roles must\nalternate");
  EXPECT_NE(error("{% include 'x' %}").find("not supported"), std::string::npos);
  EXPECT_NE(error("{{ [1].append(2) }}").find("may not change"), std::string::npos);
  EXPECT_NE(error("{{ 'x'.nope() }}").find("'str object' has no attribute 'nope'"),
            std::string::npos);
  EXPECT_NE(error("{# x").find("expected '#}'"), std::string::npos);
}

TEST(Errors, InvalidUtf8NeverCrashes) {
  boost::json::object context;
  context["x"] = boost::json::string("a\xff\xc3(\xe6\xbc");
  for (const char* source :
       {"{{ x }}", "{{ x|upper }}", "{{ x[::-1] }}", "{{ x|tojson }}", "{{ [x] }}",
        "{{ x|length }}", "{{ x|trim }}", "{{ x.split('(') }}", "{{ x|title }}",
        "{{ x|urlencode }}", "{{ x[1] }}", "{% for c in x %}{{ c }}-{% endfor %}",
        "{{ x.splitlines() }}", "{{ '%.2s' % x }}"}) {
    EXPECT_EQ(failure(source, context), "") << source;
  }
  EXPECT_NE(failure("{{ \xff }}"), "");
  EXPECT_EQ(failure("\xff{{ '\xff' }}"), "");
}

TEST(Concurrency, OneTemplateManyThreads) {
  const auto parsed = ChatTemplate::parse(
      "{% macro m(x) %}<{{ x }}>{% endmacro %}{% for i in range(50) %}{{ m(i) }}{{ 'lit'|upper }}"
      "{{ c }}{% endfor %}{{ [1, 'two'] }}");
  ASSERT_TRUE(parsed);
  const boost::json::object context{{"c", "ctx"}};
  const std::string expected = join_segments(*(*parsed)->render(context));
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, 0);
  for (size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        wrong[t] += join_segments(*(*parsed)->render(context)) == expected ? 0 : 1;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4, 0));
}

}  // namespace
}  // namespace minfer
