//! Templates and parts that do not fit what their values can be, and those that do.

use super::around::diagnostics;
use super::typed::SCHEMA;
use crate::diagnostic::Diagnostic;

const TYPED: [&str; 6] = ["W040", "W041", "W042", "W018", "W013", "E071"];

fn told(found: &[Diagnostic]) -> Vec<String> {
    let line = |it: &Diagnostic| format!("{} {}", it.code.0, &it.source.text()[it.span.start..it.span.end]);
    let typed = found
        .iter()
        .filter(|it| TYPED.contains(&it.code.0) || it.code.0.starts_with('E'));
    typed.map(line).collect()
}

/// `W042 part`: the code and the text that it is about, for a prompt of an agent that depends on all others.
fn of_template(template: &str) -> Vec<String> {
    let agents = format!(
        "- {{name: a, script: x, conversation: {{max_turns: 4}}, output_schema: {SCHEMA}}}
- {{name: guest, input: {{prompt: hi, choices: [yes, no]}}}}
- {{name: fact-checker, script: x, output_schema: {{type: object, additionalProperties: false, properties: {{n: {{type: integer}}}}}}}}
- {{name: each, script: x, for_each: {{in: [{{file: f, size: 3}}, {{file: g, size: 4}}], as: one}}, output_schema: {{type: object, required: [n], additionalProperties: false, properties: {{n: {{type: integer}}}}}}}}
- {{name: free, script: x}}
- name: b
  model: xai/n
  conversation: {{max_turns: 3}}
  config: {{tone: calm, rounds: 2}}
  depends_on: [a, guest, fact-checker, each, free]
  prompt: |-
    {}
",
        template.replace('\n', "\n    ")
    );
    told(&diagnostics(&agents, Vec::new()))
}

#[test]
fn faults_of_templates_are_told_at_their_places() {
    let rows: &[(&str, &str)] = &[
        // Keys that are never there.
        ("{{ a.skore }}", "W018 skore"),
        ("{{ a['skore'] }}", "W018 skore"),
        ("{{ a.detail.dept }}", "W018 dept"),
        ("{{ a.detail['dept'] }}", "W018 dept"),
        ("{{ a.skore | round }}", "W018 skore"),
        ("{{ a.tags[1:] + 1 }}", "W042 a.tags[1:] + 1"),
        ("{{ a.text[::-1] }}", "E043 -"),
        ("{{ a.skore + 1 }}", "W018 skore"),
        ("{{ 'x' ~ a.skore }}", "W018 skore"),
        ("{{ a.text ~ a.txt }}", "W018 txt"),
        ("{{ [a.skore] | join }}", "W018 skore"),
        ("{% if a.skore > 3 %}x{% endif %}", "W018 skore"),
        ("{% if a.skore %}x{% endif %}", "W018 skore"),
        ("{% if not a.dune %}x{% endif %}", "W018 dune"),
        ("{% if a.labl == 'accept' %}x{% endif %}", "W018 labl"),
        ("{% for tag in a.tgas %}{{ tag }}{% endfor %}", "W018 tgas"),
        ("{% for tag in a.tags %}{{ tag.name }}{% endfor %}", "W018 name"),
        ("{{ a.score.value }}", "W018 value"),
        ("{{ a.text.title }}", "W018 title"),
        ("{{ a.done.x }}", "W018 x"),
        ("{{ history[-1].agent }}", "W018 agent"),
        ("{{ history[0].output }}", "W018 output"),
        ("{{ (history | last).error }}", "W018 error"),
        (
            "{% for h in history %}{{ h.agent_name }}: {{ h.output }}{% endfor %}",
            "W018 output",
        ),
        (
            "{% for h in history if h.sucess %}{{ h.agent_name }}{% endfor %}",
            "W018 sucess",
        ),
        ("{% for h in history | reverse %}{{ h.turn }}{% endfor %}", "W018 turn"),
        ("{{ request.form }}", "W018 form"),
        ("{{ request.priorty }}", "W018 priorty"),
        ("{{ parameters.tune }}", "W018 tune"),
        ("{{ parameters.rounds.most }}", "W018 most"),
        ("{{ dependencies.guset }}", "W018 guset"),
        ("{{ dependencies['fact-cheker'].n }}", "W018 fact-cheker"),
        ("{{ dependencies['fact-checker'].m }}", "W018 m"),
        ("{{ guest.answer }}", "W018 answer"),
        ("{{ context.a.skore }}", "W018 skore"),
        ("{{ each.best }}", "W018 best"),
        ("{{ each.items[0].m }}", "W018 m"),
        (
            "{% for part in each.failed %}{{ part.reason }}{% endfor %}",
            "W018 reason",
        ),
        ("{{ input.text }}", "W018 text"),
        ("{{ turn_count.value }}", "W018 value"),
        ("{% for tag in a.tags %}{{ loop.indx }}{% endfor %}", "W018 indx"),
        ("{% with d = a.detail %}{{ d.dept }}{% endwith %}", "W018 dept"),
        // What always fails.
        ("{% for x in a.score %}x{% endfor %}", "W042 a.score"),
        ("{% for x in a.done %}x{% endfor %}", "W042 a.done"),
        ("{% for x in turn_count %}x{% endfor %}", "W042 turn_count"),
        (
            "{% for x in parameters.rounds %}x{% endfor %}",
            "W042 parameters.rounds",
        ),
        ("{% for x in each.count %}x{% endfor %}", "W042 each.count"),
        ("{{ a.text + 1 }}", "W042 a.text + 1"),
        ("{{ a.score + ' points' }}", "W042 a.score + ' points'"),
        ("{{ a.text - 1 }}", "W042 a.text - 1"),
        ("{{ a.label / 2 }}", "W042 a.label / 2"),
        ("{{ a.tags + 'new' }}", "W042 a.tags + 'new'"),
        ("{{ a.detail + 1 }}", "W042 a.detail + 1"),
        ("{{ -a.text }}", "W042 a.text"),
        ("{{ turn_count + 'x' }}", "W042 turn_count + 'x'"),
        ("{{ 'turn ' + execution }}", "W042 'turn ' + execution"),
        ("{{ a.score | length }}", "W042 a.score"),
        ("{{ a.done | count }}", "W042 a.done"),
        ("{{ a.score | join(', ') }}", "W042 a.score"),
        ("{{ a.score | first }}", "W042 a.score"),
        ("{{ a.score | sum }}", "W042 a.score"),
        ("{{ turn_count | sort }}", "W042 turn_count"),
        ("{{ a.text | round }}", "W042 a.text"),
        ("{{ a.label | abs }}", "W042 a.label"),
        ("{{ a.tags | int }}", "W042 a.tags"),
        ("{{ a.tags | items }}", "W042 a.tags"),
        ("{{ a.text | dictsort }}", "W042 a.text"),
        ("{{ a.score | lines }}", "W042 a.score"),
        ("{{ a.tags | split(',') }}", "W042 a.tags"),
        ("{{ a.text.upper() }}", "W042 upper"),
        ("{{ free.title.strip() }}", "W042 strip"),
        ("{{ input.lower() }}", "W042 lower"),
        ("{{ context.x.split(',') }}", "W042 split"),
        ("{{ a.tags.len() }}", "W042 len"),
        ("{{ history.append(1) }}", "W042 append"),
        ("{{ (input | trim).upper() }}", "W042 upper"),
        ("{{ input() }}", "W042 input"),
        ("{{ history() }}", "W042 history"),
        ("{% if 'x' in a.score %}x{% endif %}", "W042 a.score"),
        ("{% if 'x' in turn_count %}x{% endif %}", "W042 turn_count"),
        // Comparisons with one result.
        ("{% if a.label == 'Accept' %}x{% endif %}", "W040 a.label == 'Accept'"),
        (
            "{% if a.label != 'accepted' %}x{% endif %}",
            "W040 a.label != 'accepted'",
        ),
        ("{% if a.done == 'true' %}x{% endif %}", "W040 a.done == 'true'"),
        ("{% if a.score == '5' %}x{% endif %}", "W040 a.score == '5'"),
        ("{% if a.text == 5 %}x{% endif %}", "W040 a.text == 5"),
        (
            "{% if guest.response == 'Yes' %}x{% endif %}",
            "W040 guest.response == 'Yes'",
        ),
        ("{{ 'x' if a.label == 'Accept' else 'y' }}", "W040 a.label == 'Accept'"),
        ("{% if turn_count > 20 %}x{% endif %}", "W040 turn_count > 20"),
        ("{% if execution > 3 %}x{% endif %}", "W040 execution > 3"),
        ("{% if execution == 0 %}x{% endif %}", "W040 execution == 0"),
        ("{% if a.score > 10 %}x{% endif %}", "W040 a.score > 10"),
        (
            "{% if history[-1].agent_name == 'c' %}x{% endif %}",
            "W040 history[-1].agent_name == 'c'",
        ),
        (
            "{% for h in history %}{% if h.success == 'true' %}x{% endif %}{% endfor %}",
            "W040 h.success == 'true'",
        ),
        (
            "{% if a.label | upper == 'accept' %}x{% endif %}",
            "W040 a.label | upper == 'accept'",
        ),
        // Filters and tests that do not exist.
        ("{{ input | uper }}", "E071 uper"),
        ("{{ input | truncate(20) }}", "E071 truncate"),
        ("{{ input | to_json }}", "E071 to_json"),
        ("{{ free.x | wordcount }}", "E071 wordcount"),
        ("{{ [1] | random }}", "E071 random"),
        ("{% if input is defind %}x{% endif %}", "E071 defind"),
        ("{% if input is empty %}x{% endif %}", "E071 empty"),
        ("{% filter uper %}x{% endfilter %}", "E071 uper"),
        ("{% set x = input | uper %}{{ x }}", "E071 uper"),
        ("{{ [1] | map('upper') | joyn(', ') }}", "E071 joyn"),
    ];
    let mut wrong = Vec::new();
    for (template, expected) in rows {
        let found = of_template(template);
        if found != [*expected] {
            wrong.push(format!("{template}: expected {expected}, found {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_a_template_may_do_is_not_told() {
    let rows: &[&str] = &[
        "{{ a.score }}",
        "{{ a }}",
        "{{ a.detail.depth }} {{ a.detail.note }}",
        "{{ a.more + 1 }}",
        "{{ a.any.deep.er }}",
        "{{ a.any | length }}",
        "{{ a.any + 1 }}",
        "{% for x in a.any %}{{ x.y }}{% endfor %}",
        "{{ free.anything.at.all }}",
        "{{ free.x + 1 }}",
        "{{ free.x | round }}",
        "{{ a.kind == 'timeout' }}",
        "{% if a.label[1:] == 'ccept' %}x{% endif %}",
        "{% for x in a.more[1:] %}{{ x }}{% endfor %}",
        "{{ context.other }}",
        "{{ context.a.score }}",
        "{{ context.get('other', 1) + 1 }}",
        "{% for key, value in context.items() %}{{ key }}{{ value }}{% endfor %}",
        "{% for key in a.keys() %}{{ key }}{% endfor %}",
        "{% for key in a %}{{ a[key] }}{% endfor %}",
        "{% for key, value in a | items %}{{ key }}{{ value }}{% endfor %}",
        "{{ a.get('skore', 3) }}",
        "{{ a.title | default('') }}",
        "{{ a.title is defined }}",
        "{% if a.title is defined %}x{% endif %}",
        "{% if a.title %}x{% endif %}",
        "{{ a.title or a.text }}",
        "{{ a.score + 1 }}",
        "{{ a.score * 2 - 1 }}",
        "{{ a.done + 1 }}",
        "{{ a.text * 3 }}",
        "{{ a.text + a.label }}",
        "{{ a.tags + ['x'] }}",
        "{{ a.score ~ ' points' }}",
        "{{ a.score | string | length }}",
        "{{ a.text | length }}",
        "{{ a.tags | length }}",
        "{{ a | length }}",
        "{{ a.tags | join(', ') }}",
        "{{ a.tags | first }}",
        "{{ a.text | int }}",
        "{{ a.done | int }}",
        "{{ a.score | upper }}",
        "{{ a.score | replace('1', '2') }}",
        "{{ a.mixed | round }}",
        "{{ a.detail | tojson }}",
        "{% for c in a.text %}{{ c }}{% endfor %}",
        "{% for tag in a.tags %}{{ loop.index }}{{ tag }}{% endfor %}",
        "{% for tag in a.tags %}{{ loop.cycle('a', 'b') }}{{ loop.previtem }}{% endfor %}",
        "{% for x in range(3) %}{{ x + 1 }}{% endfor %}",
        "{% for h in history %}{{ h.agent_name }}{{ h.output_data.score }}{% endfor %}",
        "{{ history | length }}{{ (history | last).turn_number + 1 }}",
        "{{ history[-1].output_data.error }}",
        "{{ history | map(attribute='agent_name') | join(', ') }}",
        "{{ history | selectattr('success') | list | length }}",
        "{% if request %}{{ request.from }}{{ request.parameters.topic }}{% endif %}",
        "{{ parameters.tone }}{{ parameters.rounds + 1 }}",
        "{{ dependencies['fact-checker'].n }}{{ dependencies.a.score }}",
        "{{ each.items[0].n }}{{ each.count + 1 }}{{ each.failed | length }}",
        "{{ input | upper | trim }}",
        "{{ transcript | length }}",
        "{{ turn_count + 1 }}",
        "{% if turn_count >= 20 %}x{% endif %}",
        "{% if turn_count < 100 %}x{% endif %}",
        "{% if not (turn_count > 100) %}x{% endif %}",
        "{% if execution > 2 %}x{% endif %}",
        "{% if execution == 1 %}x{% endif %}",
        "{% if a.done == 1 %}x{% endif %}",
        "{% if a.done == true %}x{% endif %}",
        "{% if a.score == 5.0 %}x{% endif %}",
        "{% if a.text > 3 %}x{% endif %}",
        "{% if a.label in ['accept', 'other'] %}x{% endif %}",
        "{% if a.label == '' %}x{% endif %}",
        "{% if a.score > 9.5 %}x{% endif %}",
        "{% if 'new' in a.tags and 'x' in a.text and 'depth' in a.detail %}x{% endif %}",
        "{% if a.mixed is string %}{{ a.mixed | upper }}{% endif %}",
        "{% if a.score is iterable %}{% for x in a.score %}x{% endfor %}{% endif %}",
        "{{ a.score | length if a.score is string else 0 }}",
        "{% if false %}{{ a.score | length }}{% endif %}",
        "{% if 'uper' is filter %}{{ input | uper }}{% endif %}",
        "{% set a = 'x' %}{{ a.upper }}",
        "{% set x = a.score %}{{ x.y }}",
        "{% set ns = namespace(n=0) %}{% for t in a.tags %}{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }}",
        "{% macro show(score) %}{{ score.value }}{% endmacro %}{{ show(a) }}",
        "{% with a = {'skore': 1} %}{{ a.skore }}{% endwith %}",
        "{% for a in [1, 2] %}{{ a + 1 }}{% endfor %}",
        "{% raw %}{{ a.skore }}{{ x | uper }}{% endraw %}",
        "{# {{ a.skore | uper }} #}",
        "{{ 'x' if a.done else a.text }}",
        "{{ -a.score }}",
        "{{ a.tags[0:1] | join }}",
        "{{ a.tags | sort | unique | reverse | list | length }}",
        "{{ (a.tags | first) ~ 'x' }}",
        "{{ guest.response == 'yes' }}{{ guest }}",
    ];
    let mut wrong = Vec::new();
    for template in rows {
        let found = of_template(template);
        if !found.is_empty() {
            wrong.push(format!("{template}: {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Agents that are given as they are, after an agent `a` with a known output.
fn of_agents(agents: &str) -> Vec<String> {
    told(&diagnostics(
        &format!("- {{name: a, script: x, output_schema: {SCHEMA}}}\n{agents}"),
        Vec::new(),
    ))
}

fn of_list(each: &str) -> Vec<String> {
    of_agents(&format!(
        "- name: b\n  model: xai/n\n  depends_on: [a]\n  output_schema: {{type: object, required: [n, ok], properties: {{n: {{type: integer, minimum: 0}}, ok: {{type: boolean}}, l: {{type: array}}}}}}\n{each}\n"
    ))
}

#[test]
fn faults_of_parts() {
    let rows: &[(&str, &str)] = &[
        ("  for_each: {in: outputs.a.score}", "W041 outputs.a.score"),
        ("  for_each: {in: outputs.a.text}", "W041 outputs.a.text"),
        ("  for_each: {in: outputs.a.done}", "W041 outputs.a.done"),
        ("  for_each: {in: context.a.label}", "W041 context.a.label"),
        ("  for_each: {in: turn_count}", "W041 turn_count"),
        ("  for_each: {in: len(outputs.a.tags)}", "W041 len(outputs.a.tags)"),
        ("  for_each: {in: input}", "W041 input"),
        ("  for_each: {in: outputs.a.tgas}", "W013 tgas"),
        ("  for_each: {in: outputs.a.score.items}", "W041 items"),
        ("  for_each: {in: outputs.a.tags, key: item.name}", "W041 name"),
        ("  for_each: {in: [{n: 1}, {n: 2}], key: item.name}", "W013 name"),
        ("  for_each: {times: 3, key: item.name}", "W041 name"),
        ("  for_each: {times: 3, key: part.number}", "W013 number"),
        (
            "  for_each: {times: 3, combine: {best: output.n > 3}}",
            "W041 output.n > 3",
        ),
        ("  for_each: {times: 3, combine: {best: output.ok}}", "W041 output.ok"),
        ("  for_each: {times: 3, combine: {best: output.l}}", "W041 output.l"),
        (
            "  for_each: {times: 3, combine: {first: output.n == '3'}}",
            "W040 output.n == '3'",
        ),
        (
            "  for_each: {times: 3, combine: {first: output.n < 0}}",
            "W040 output.n < 0",
        ),
        (
            "  for_each: {times: 3, combine: {first: output.n > 'x'}}",
            "W041 output.n > 'x'",
        ),
        ("  for_each: {times: 3, combine: {first: item > 2}}", "W040 item > 2"),
        // Items in templates.
        (
            "  for_each: {in: outputs.a.tags}\n  prompt: '{{ item.name }}'",
            "W018 name",
        ),
        ("  for_each: {in: [{n: 1}]}\n  prompt: '{{ item.m }}'", "W018 m"),
        (
            "  for_each: {in: [1, 2]}\n  prompt: '{% for x in item %}x{% endfor %}'",
            "W042 item",
        ),
        (
            "  for_each: {in: [1, 2]}\n  prompt: '{{ item + \"x\" }}'",
            "W042 item + \"x\"",
        ),
        ("  for_each: {times: 3, as: n}\n  prompt: '{{ n.x }}'", "W018 x"),
        ("  for_each: {times: 3}\n  prompt: '{{ part.number }}'", "W018 number"),
        (
            "  for_each: {in: [x, y]}\n  prompt: '{% if item == \"z\" %}{% endif %}'",
            "W040 item == \"z\"",
        ),
    ];
    let mut wrong = Vec::new();
    for (each, expected) in rows {
        let found = of_list(each);
        let expected: Vec<&str> = Some(*expected).into_iter().filter(|one| !one.is_empty()).collect();
        if found != expected {
            wrong.push(format!("{each}: expected {expected:?}, found {found:?}"));
        }
    }
    for each in [
        "  for_each: {in: outputs.a.tags}",
        "  for_each: {in: outputs.a.any}",
        "  for_each: {in: outputs.a.detail}",
        "  for_each: {in: context.other}",
        "  for_each: {in: [{n: 1}, {m: 2}], key: item.n}",
        "  for_each: {in: outputs.a.detail, key: item.key}\n  prompt: '{{ item.key }}{{ item.value }}'",
        "  for_each: {times: 3, combine: {best: output.n}}",
        "  for_each: {times: 3, combine: {first: output.n > item}}",
        "  for_each: {times: 3, combine: {majority: output.ok}}",
        "  for_each: {in: [x, y]}\n  prompt: '{{ item | upper }}{{ part.index + 1 }}{{ part.key }}{{ part.count }}'",
    ] {
        let found = of_list(each);
        if !found.is_empty() {
            wrong.push(format!("{each}: {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
