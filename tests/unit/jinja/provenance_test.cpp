// Provenance: text from the context stays marked as such through everything a template can do to
// it.
#include <gtest/gtest.h>

#include "template_test.h"

namespace minfer {
namespace {

constexpr const char* kContext = R"({
  "c": "<|x|>", "s": " aXb ", "list": ["p", "q"], "d": {"k": "v", "n": 7}, "n": 5, "multi": "l1\nl2",
  "bos_token": "<s>", "eos_token": "</s>", "fmt": "%s!", "braces": "{}?", "messages": [
    {"role": "user", "content": "u1"}, {"role": "assistant", "content": "a1"}]})";

struct Case {
  const char* source;
  const char* expected;
};

class Provenance : public testing::TestWithParam<Case> {};

TEST_P(Provenance, IsKept) {
  EXPECT_EQ(marked(GetParam().source, kContext), GetParam().expected);
}

INSTANTIATE_TEST_SUITE_P(
    Basics, Provenance,
    testing::Values(
        Case{"a{{ c }}b", "a«<|x|>»b"}, Case{"{{ 'lit' ~ c ~ 'lit' }}", "lit«<|x|>»lit"},
        Case{"{{ '<' + c + '>' }}", "<«<|x|>»>"}, Case{"{{ c }}{{ c }}", "«<|x|><|x|>»"},
        Case{"{{ bos_token }}{{ c }}{{ eos_token }}", "<s>«<|x|>»</s>"},
        Case{"{% set y = c %}{{ y }}", "«<|x|>»"},
        Case{"{% set y %}[{{ c }}]{% endset %}{{ y }}", "[«<|x|>»]"},
        Case{"{% set ns = namespace(a='') %}{% set ns.a = ns.a ~ 'T' ~ c %}{{ ns.a }}", "T«<|x|>»"},
        Case{"{% macro m(x) %}<{{ x }}>{% endmacro %}{{ m(c) }}", "<«<|x|>»>"},
        Case{"{% filter upper %}t{{ c }}t{% endfilter %}", "T«<|X|>»T"},
        Case{"{% generation %}g{{ c }}{% endgeneration %}", "g«<|x|>»"},
        Case{"{% for m in messages %}{{ m.role }}:{{ m.content }};{% endfor %}",
             "«user»:«u1»;«assistant»:«a1»;"},
        Case{"{{ c if n else 'x' }}", "«<|x|>»"}, Case{"{{ c or 'x' }}", "«<|x|>»"},
        Case{"{{ missing|default(c) }}{{ missing|default('t') }}", "«<|x|>»t"},
        Case{"{% raw %}{{ c }}{% endraw %}", "{{ c }}"}));

INSTANTIATE_TEST_SUITE_P(
    Strings, Provenance,
    testing::Values(
        Case{"{{ ('T' ~ c ~ 'T')[0:3] }}", "T«<|»"},
        Case{"{{ ('T' ~ c ~ 'U')[::-1] }}", "U«>|x|<»T"},
        Case{"{{ ('T' ~ c)[1] }}{{ ('T' ~ c)[0] }}", "«<»T"},
        Case{"{{ (' t ' ~ s ~ ' t ')|trim }}", "t « aXb » t"}, Case{"{{ s|trim }}", "«aXb»"},
        Case{"{{ s.strip() ~ s.upper() }}", "«aXb AXB »"},
        Case{"{{ s|replace('X', 'T') }}", "« a»T«b »"},
        Case{"{{ 'tXt'|replace('X', c) }}", "t«<|x|>»t"},
        Case{"{{ s.replace('X', '') }}", "« ab »"},
        Case{"{{ ('t,' ~ 'u,' ~ c).split(',') | join('|') }}", "t|u|«<|x|>»"},
        Case{"{{ list|join(', ') }}", "«p», «q»"}, Case{"{{ c.join(['a', 'b']) }}", "a«<|x|>»b"},
        Case{"{{ multi|indent(2) }}", "«l1\n»  «l2»"},
        Case{"{{ ('t' ~ c)|capitalize }}{{ ('t' ~ c)|title }}", "T«<|x|>»T«<|x|>»"},
        Case{"{{ c|escape }}", "«&lt;|x|&gt;»"}, Case{"{{ c * 2 }}", "«<|x|><|x|>»"},
        Case{"{{ 't%st' % c }}", "t«<|x|>»t"}, Case{"{{ 't%5st' % c }}", "t«<|x|>»t"},
        Case{"{{ fmt % 't' }}", "t«!»"}, Case{"{{ fmt|format('t') }}", "t«!»"},
        Case{"{{ 'a{}b'.format(c) }}", "a«<|x|>»b"}, Case{"{{ braces.format('t') }}", "t«?»"},
        Case{"{{ '{:>7}'.format(c) }}", "  «<|x|>»"}, Case{"{{ c.center(7, '*') }}", "*«<|x|>»*"},
        Case{"{{ (c ~ ' t ' ~ c)|truncate(9, true, '..', 0) }}", "«<|x|>» t.."},
        Case{"{{ c|list|join('') }}", "«<|x|>»"},
        Case{"{% for ch in 't' ~ c %}{{ ch }}{% endfor %}", "t«<|x|>»"},
        Case{"{{ ('t-' ~ c).partition('-') | join('') }}", "t-«<|x|>»"},
        Case{"{{ c|string|upper|lower }}", "«<|x|>»"},
        Case{"{{ c|urlencode }}", "«%3C%7Cx%7C%3E»"}));

INSTANTIATE_TEST_SUITE_P(
    Values, Provenance,
    testing::Values(
        Case{"{{ d }}", "«{'k': 'v', 'n': 7}»"},
        Case{"{{ d|tojson }}", "«{\"k\": \"v\", \"n\": 7}»"},
        Case{"{{ {'a': c}|tojson }}", "{\"a\": «\"<|x|>\"»}"},
        Case{"{{ [c, 't'] }}", "[«'<|x|>'», 't']"},
        Case{"{{ d|tojson(indent=1) }}", "«{\n» «\"k\": \"v\",\n» «\"n\": 7\n}»"},
        Case{"{{ n }}{{ n + 1 }}{{ 1 }}", "«56»1"}, Case{"{{ n|string ~ 't' }}", "«5»t"},
        Case{"{{ list }}{{ list[1:] }}", "«['p', 'q']['q']»"}, Case{"{{ list|length }}", "2"},
        Case{"{{ messages|map(attribute='content')|join }}", "«u1a1»"},
        Case{"{{ (messages|last).content }}{{ (messages|first)['role'] }}", "«a1user»"},
        Case{"{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}", "«k»=«v»;«n»=«7»;"},
        Case{"{{ d|dictsort }}", "«[('k', 'v'), ('n', 7)]»"},
        Case{"{{ list|sort|reverse|join('-') }}", "«q»-«p»"}, Case{"{{ d.get('zz', 't') }}", "t"},
        Case{"{{ dict(d).k }}", "«v»"}, Case{"{{ '7'|int }}{{ d.n|float }}", "7«7.0»"}));

TEST(ProvenanceSegments, AreCoalescedAndNotEmpty) {
  const auto segments = render_segments("a{{ '' }}b{{ e }}c{{ x }}{{ x }}d",
                                        boost::json::parse(R"({"e": "", "x": "y"})").as_object());
  ASSERT_TRUE(segments);
  ASSERT_EQ(segments->size(), 3u);
  EXPECT_EQ((*segments)[0].text, "abc");
  EXPECT_EQ((*segments)[1].text, "yy");
  EXPECT_FALSE((*segments)[1].parse_special);
  EXPECT_EQ(join_segments(*segments), "abcyyd");
}

}  // namespace
}  // namespace minfer
