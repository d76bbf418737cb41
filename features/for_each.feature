Feature: For each
  An agent with `for_each` runs once for each item of a list; all parts together are one execution.

  Scenario: Each item of a list that another agent made
    Given the ensemble "sizes.yaml":
      """
      name: sizes
      agents:
        - {name: files, script: files.rhai}
        - name: size
          script: size.rhai
          depends_on: [files]
          for_each: {in: outputs.files.paths, as: file, key: file}
        - {name: after, script: after.rhai, depends_on: [size]}
      """
    And the Rhai script "files.rhai":
      """
      #{ paths: ["a", "bcd"] }
      """
    And the Rhai script "size.rhai":
      """
      #{ size: file.len(), at: part }
      """
    And the Rhai script "after.rhai":
      """
      #{ heard: dependencies.size.items.len() }
      """
    When I run `ensemble run sizes.yaml --output json`
    Then it ends as "completed" with exit code 0
    And execution 1 of "size" gave "items" = [{"size": 1, "at": {"index": 0, "key": "a", "count": 2}}, {"size": 3, "at": {"index": 1, "key": "bcd", "count": 2}}]
    And execution 1 of "size" gave "keys" = ["a", "bcd"]
    And execution 1 of "size" gave "failed" = []
    And execution 1 of "size" gave "count" = 2
    And the final state has "size.count" = 2
    And the final state has no "items"
    And the final state has no "count"
    And the final state has "heard" = 2
    And the execution counts are:
      | agent | count |
      | files | 1     |
      | size  | 1     |
      | after | 1     |

  Scenario: The items stand in the file, are numbers, or are the entries of a map
    Given the ensemble "kinds.yaml":
      """
      name: kinds
      inputs: {map: {type: object, default: {x: 1, y: [2]}}}
      agents:
        - {name: listed, script: say.rhai, for_each: {in: [1, {a: b}, null]}}
        - {name: counted, script: say.rhai, for_each: {times: 3}}
        - {name: mapped, script: say.rhai, for_each: {in: inputs.map}}
        - {name: empty, script: say.rhai, for_each: {in: []}}
      """
    And the Rhai script "say.rhai":
      """
      #{ it: item }
      """
    When I run `ensemble run kinds.yaml --output json`
    Then it ends as "completed" with exit code 0
    And execution 1 of "listed" gave "items" = [{"it": 1}, {"it": {"a": "b"}}, {"it": null}]
    And execution 1 of "counted" gave "items" = [{"it": 0}, {"it": 1}, {"it": 2}]
    And execution 1 of "mapped" gave "items" = [{"it": {"key": "x", "value": 1}}, {"it": {"key": "y", "value": [2]}}]
    And execution 1 of "mapped" gave "keys" = ["0", "1"]
    And execution 1 of "empty" gave "items" = []
    And execution 1 of "empty" gave "count" = 0

  Scenario Outline: A list that cannot be worked on fails before its first part
    Given the ensemble "bad.yaml":
      """
      name: bad
      agents:
        - {name: it, script: "sh it.sh", for_each: <for_each>}
      """
    And the file "it.sh":
      """
      echo ran >> ran.txt
      """
    When I run `ensemble run bad.yaml --output json`
    Then it ends as "agent_failed" with exit code 1
    And execution 1 of "it" failed (schema) saying "<error>"
    And there is no file "ran.txt"

    Examples:
      | for_each                          | error                                            |
      | {in: context.nothing}             | `for_each.in` evaluates to nothing; expected a list or a map         |
      | {in: "1 / 0"}                     | `for_each.in`: division by zero                  |
      | {times: 3, max_items: 2}          | `for_each.in` has 3 items, but `max_items` is 2 |
      | {in: [a, b, a], key: item}        | `for_each.key` evaluates to `a` for two items                   |
      | {in: [a, ''], key: item}          | `for_each.key` of item 1 evaluates to an empty text; expected a text |
      | {in: [1, '1'], key: item}         | `for_each.key` evaluates to `1` for two items                   |

  Scenario: The first failed part fails the execution and names its key
    Given the ensemble "fails.yaml":
      """
      name: fails
      agents:
        - {name: it, script: it.rhai, for_each: {in: [a, b, c], key: item, max_parallel: 1}}
      """
    And the Rhai script "it.rhai":
      """
      if item == "b" { throw "cannot read it" }
      #{ read: item }
      """
    When I run `ensemble run fails.yaml --output json`
    Then it ends as "agent_failed" with exit code 1
    And execution 1 of "it" failed (reported) saying "part `b`: it.rhai:1:18: cannot read it"
    When I run `ensemble run fails.yaml`
    Then stdout says "3 parts: 1 succeeded, 1 failed, 1 stopped"
    And stdout says "[b] failed (reported): it.rhai:1:18: cannot read it"
    And stderr says "--from 'it[b]@1'"

  Scenario Outline: With `collect` as many parts as `at_least` says must succeed
    Given the ensemble "some.yaml":
      """
      name: some
      agents:
        - name: it
          script: it.rhai
          for_each: {in: [a, b, c, d, e], key: item, on_error: collect, at_least: <at_least>}
      """
    And the Rhai script "it.rhai":
      """
      if item == "b" || item == "d" { throw "no " + item }
      #{ read: item }
      """
    When I run `ensemble run some.yaml --output json`
    Then it ends as "<outcome>" with exit code <code>

    Examples:
      | at_least | outcome      | code |
      | 1        | completed    | 0    |
      | 3        | completed    | 0    |
      | 60%      | completed    | 0    |
      | 4        | agent_failed | 1    |
      | 61%      | agent_failed | 1    |

  Scenario: What failed is told beside what succeeded
    Given the ensemble "some.yaml":
      """
      name: some
      agents:
        - {name: it, script: it.rhai, for_each: {in: [a, b, c], key: item, on_error: collect}}
      """
    And the Rhai script "it.rhai":
      """
      if item == "b" { throw "no" }
      #{ read: item }
      """
    When I run `ensemble run some.yaml --output json`
    Then it ends as "completed" with exit code 0
    And execution 1 of "it" gave "items" = [{"read": "a"}, null, {"read": "c"}]
    And execution 1 of "it" gave "failed" = [{"key": "b", "item": "b", "error": "it.rhai:1:18: no", "kind": "reported"}]
    And a warning says "1 of 3 parts of `it` failed"
    And the result has "failed_work" = [{"agent": "it", "parts": {"failed": 1, "count": 3}, "tool_calls": {"failed": 0, "count": 0}}]
    And execution 1 of "it" gave "count" = 3

  Scenario: The best, the first, and what most say
    Given the ensemble "combine.yaml":
      """
      name: combine
      agents:
        - {name: best, script: say.rhai, for_each: {in: [3, 9, 9, 1], combine: {best: output.n}}}
        - {name: first, script: say.rhai, for_each: {in: [3, 9, 9, 1], combine: {first: output.n > 5}}}
        - {name: none, script: say.rhai, for_each: {in: [3], combine: {first: output.n > 5}}}
        - {name: vote, script: say.rhai, for_each: {in: [3, 9, 9, 9, 1], combine: {majority: output.n}}}
        - {name: split, script: say.rhai, for_each: {in: [3, 9], combine: {majority: output.n}}}
      """
    And the Rhai script "say.rhai":
      """
      #{ n: item, at: part.index }
      """
    When I run `ensemble run combine.yaml --output json`
    Then it ends as "completed" with exit code 0
    And execution 1 of "best" gave "best" = {"n": 9, "at": 1}
    And execution 1 of "first" gave "first" = {"n": 9, "at": 1}
    And execution 1 of "none" gave "first" = null
    And execution 1 of "vote" gave "answer" = 9
    And execution 1 of "vote" gave "agreed" = true
    And execution 1 of "split" gave "answer" = 3
    And execution 1 of "split" gave "agreed" = false
    And execution 1 of "split" gave "votes" = [{"answer": 3, "count": 1}, {"answer": 9, "count": 1}]

  Scenario: A part that cannot matter any more is not started
    Given the ensemble "enough.yaml":
      """
      name: enough
      agents:
        - name: it
          script: "sh it.sh"
          for_each: {times: 20, max_parallel: 1, combine: {first: part.index == 2}}
      """
    And the file "it.sh":
      """
      echo "$ENSEMBLE_PART" >> ran.txt
      """
    When I run `ensemble run enough.yaml --output json`
    Then it ends as "completed" with exit code 0
    And execution 1 of "it" gave "count" = 20
    And the file "ran.txt" holds:
      """
      0
      1
      2
      """

  Scenario: Attempts, time limits and schemas hold for each part
    Given the ensemble "each.yaml":
      """
      name: each
      agents:
        - name: again
          script: "sh again.sh"
          retry: {max_attempts: 2, delay_seconds: 0}
          for_each: {in: [a, b], key: item}
        - name: slow
          script: "if grep -q '\"item\":\"slow\"'; then sleep 60; fi; echo fine"
          timeout_seconds: 1
          for_each: {in: [quick, slow], key: item, on_error: collect}
        - name: shaped
          script: shaped.rhai
          output_schema: {type: object, required: [n], properties: {n: {type: integer}}}
          for_each: {in: [1, two], on_error: collect}
      """
    And the file "again.sh":
      """
      if [ "$ENSEMBLE_PART.$ENSEMBLE_ATTEMPT" = b.1 ]; then exit 3; fi
      echo "$ENSEMBLE_PART.$ENSEMBLE_ATTEMPT"
      """
    And the Rhai script "shaped.rhai":
      """
      #{ n: item }
      """
    When I run `ensemble run each.yaml --output json`
    Then it ends as "completed" with exit code 0
    And execution 1 of "again" gave "items" = [{"response": "a.1"}, {"response": "b.2"}]
    And execution 1 of "again" has "attempt" = 1
    And execution 1 of "slow" gave "items" = [{"response": "fine"}, null]
    And execution 1 of "slow" gave "failed" = [{"key": "slow", "item": "slow", "error": "timed out after 1 s", "kind": "timeout"}]
    And execution 1 of "shaped" gave "items" = [{"n": 1}, null]

  Scenario: Parts whose turn is over have failed, and the others count
    Given the ensemble "late.yaml":
      """
      name: late
      conversation_limits: {turn_timeout_seconds: 1}
      agents:
        - name: it
          script: "if grep -q '\"item\":1'; then sleep 60; fi; echo fine"
          for_each: {in: [0, 1, 2], max_parallel: 2, on_error: collect}
      """
    When I run `ensemble run late.yaml --output json`
    Then it ends as "completed" with exit code 0
    And execution 1 of "it" gave "items" = [{"response": "fine"}, null, {"response": "fine"}]
    And execution 1 of "it" gave "failed" = [{"key": "1", "item": 1, "error": "turn_timeout_seconds was reached", "kind": "timeout"}]

  Scenario: A budget is looked at between parts
    Given the ensemble "paid.yaml":
      """
      name: paid
      conversation_limits: {max_total_tokens: 1}
      agents:
        - {name: it, model: simulated/default, prompt: "{{ item }}", for_each: {times: 3, max_parallel: 1, on_error: collect}}
      """
    When I run `ensemble run paid.yaml --output json`
    Then the exit code is 0
    And execution 1 of "it" gave "failed" = [{"key": "1", "item": 1, "error": "`max_total_tokens` is used up, so the part was not started", "kind": "model"}, {"key": "2", "item": 2, "error": "`max_total_tokens` is used up, so the part was not started", "kind": "model"}]

  Scenario: Programs find the item and the part in their input
    Given the ensemble "stdin.yaml":
      """
      name: stdin
      agents:
        - {name: it, script: "cat", for_each: {in: [[1, 2]], as: pair}}
      """
    When I run `ensemble run stdin.yaml --output json`
    Then it ends as "completed" with exit code 0
    And the final state has "it.items.0.pair" = [1, 2]
    And the final state has "it.items.0.part" = {"index": 0, "key": "0", "count": 1}

  Scenario: A prompt that uses no variable gets the item first
    Given the ensemble "plain.yaml":
      """
      name: plain
      model_profiles:
        p: {provider: simulated, script: echo.rhai}
      agents:
        - {name: it, model_profile: p, prompt: "Say it again.", for_each: {in: [red, blue], as: colour}}
        - {name: named, model_profile: p, prompt: "{{ colour }} {{ part.index }}/{{ part.count }}", for_each: {in: [red], as: colour}}
      """
    And the Rhai script "echo.rhai":
      """
      prompt
      """
    When I run `ensemble run plain.yaml --input paint --output json`
    Then it ends as "completed" with exit code 0
    And execution 1 of "it" gave "items" = [{"response": "Say it again.\n\n## colour\nred\n\n## Input\npaint"}, {"response": "Say it again.\n\n## colour\nblue\n\n## Input\npaint"}]
    And execution 1 of "named" gave "items" = [{"response": "red 0/1"}]

  Scenario: A model remembers by key
    Given the ensemble "memory.yaml":
      """
      name: memory
      model_profiles:
        p: {provider: simulated, script: count.rhai}
      agents:
        - {name: lists, script: lists.rhai, conversation: {max_turns: 2, trigger: every_turn}}
        - name: it
          model_profile: p
          prompt: "{{ item }}"
          depends_on: [lists]
          conversation: {max_turns: 2}
          for_each: {in: outputs.lists.names, key: item}
      """
    And the Rhai script "lists.rhai":
      """
      if execution == 1 { #{ names: ["ann", "bob"] } } else { #{ names: ["bob", "eve"] } }
      """
    And the Rhai script "count.rhai":
      """
      prompt + ":" + messages.len()
      """
    When I run `ensemble run memory.yaml --output json`
    Then it ends as "completed" with exit code 0
    And execution 1 of "it" gave "items" = [{"response": "ann:1"}, {"response": "bob:1"}]
    And execution 2 of "it" gave "items" = [{"response": "bob:3"}, {"response": "eve:1"}]

  Scenario: An ensemble for each item, with inputs of its own
    Given the ensemble "outer.yaml":
      """
      name: outer
      agents:
        - name: each
          ensemble: inner
          inputs: {word: "{{ word }}", n: "{{ part.index }}"}
          for_each: {in: [sun, moon], as: word, key: word}
      """
    And the ensemble "inner.yaml":
      """
      name: inner
      inputs: {word: {type: string}, n: {type: integer}}
      result: {said: "outputs.say.said"}
      agents:
        - {name: say, script: say.rhai}
      """
    And the Rhai script "say.rhai":
      """
      #{ said: inputs.word + " " + inputs.n }
      """
    When I run `ensemble run outer.yaml --output json`
    Then it ends as "completed" with exit code 0
    And execution 1 of "each" gave "items" = [{"said": "sun 0"}, {"said": "moon 1"}]

  Scenario: Requests of parts are ignored with a warning
    Given the ensemble "asks.yaml":
      """
      name: asks
      agents:
        - {name: it, script: it.rhai, for_each: {times: 1}, conversation: {triggers_conversation: true}}
        - {name: other, script: it.rhai, depends_on: [never]}
        - {name: never, script: it.rhai, dependencies: [{agent_name: it, on: failure}]}
      """
    And the Rhai script "it.rhai":
      """
      #{ agent_requests: [#{ target_agent: "other" }] }
      """
    When I run `ensemble run asks.yaml --output json`
    Then it ends as "completed" with exit code 0
    And a warning says "it[0]: a part cannot request other agents, so its `agent_requests` are ignored"
    And the execution counts are:
      | agent | count |
      | it    | 1     |
      | other | 0     |
      | never | 0     |

  Scenario: An execution with parts counts once, and a failure is handled once
    Given the ensemble "route.yaml":
      """
      name: route
      agents:
        - {name: it, script: it.rhai, for_each: {in: [a, b], key: item}}
        - {name: mend, script: mend.rhai, dependencies: [{agent_name: it, on: failure}]}
      """
    And the Rhai script "it.rhai":
      """
      throw "no"
      """
    And the Rhai script "mend.rhai":
      """
      #{ heard: failures.it.kind }
      """
    When I run `ensemble run route.yaml --output json`
    Then it ends as "completed" with exit code 0
    And the final state has "heard" = "reported"

  Scenario: A replay takes the execution whole, and no part is performed
    Given the ensemble "once.yaml":
      """
      name: once
      agents:
        - {name: it, script: "sh it.sh", for_each: {in: [a, b], key: item, on_error: collect}}
        - {name: after, script: after.rhai, dependencies: [{agent_name: it, condition: len(output.failed) == 1}]}
      """
    And the file "it.sh":
      """
      echo "$ENSEMBLE_PART" >> ran.txt
      test "$ENSEMBLE_PART" = a
      """
    And the Rhai script "after.rhai":
      """
      #{ done: true }
      """
    When I run `ensemble run once.yaml --output json`
    Then it ends as "completed" with exit code 0
    When in "it.sh" `ran.txt` becomes `again.txt`
    And I run `ensemble replay {run}`
    Then the exit code is 0
    And there is no file "again.txt"

  Scenario: One part is repeated by its key, and the others are taken over
    Given the ensemble "mend.yaml":
      """
      name: mend
      agents:
        - {name: it, script: "sh it.sh", for_each: {in: [a, b, c], key: item, max_parallel: 1, on_error: collect}}
        - {name: after, script: after.rhai, depends_on: [it]}
      """
    And the file "it.sh":
      """
      echo "$ENSEMBLE_PART" >> ran.txt
      cat word
      """
    And the file "word":
      """
      old
      """
    And the Rhai script "after.rhai":
      """
      #{ heard: dependencies.it.items.map(|one| one.response) }
      """
    When I run `ensemble run mend.yaml --output json`
    Then the final state has "heard" = ["old", "old", "old"]
    When in "word" `old` becomes `new`
    And I run `ensemble rerun {run} --from it[b]@1 --output json`
    Then it ends as "completed" with exit code 0
    And the final state has "heard" = ["old", "new", "old"]
    And the file "ran.txt" holds:
      """
      a
      b
      c
      b
      """
    When I run `ensemble rerun {run} --from it[z]@1`
    Then the exit code is 2
    And stderr says "it had no part `z`"
    And stderr says "the parts are a, c, b"

  Scenario: An edited run takes over the parts whose items stayed the same
    Given the ensemble "edit.yaml":
      """
      name: edit
      agents:
        - {name: names, script: names.rhai}
        - {name: it, script: "sh it.sh", depends_on: [names], for_each: {in: outputs.names.all, key: item.name, max_parallel: 1}}
      """
    And the Rhai script "names.rhai":
      """
      #{ all: [#{ name: "a", n: 1 }, #{ name: "b", n: 1 }] }
      """
    And the file "it.sh":
      """
      echo "$ENSEMBLE_PART" >> ran.txt
      """
    When I run `ensemble run edit.yaml --output json`
    Then it ends as "completed" with exit code 0
    When in "names.rhai" `"b", n: 1` becomes `"b", n: 2`
    And I run `ensemble rerun {run} --from names@1 --output json`
    Then it ends as "completed" with exit code 0
    And the file "ran.txt" holds:
      """
      a
      b
      b
      """

  Scenario: Before a run it is told what is wrong
    Given the ensemble "wrong.yaml":
      """
      name: wrong
      agents:
        - {name: ask, input: Well?, for_each: {times: 2}}
        - {name: early, script: say.rhai, for_each: {in: outputs.late.list}}
        - {name: late, script: say.rhai}
        - {name: typo, model: simulated/default, prompt: "{{ flie }}", for_each: {times: 2, as: file}}
        - {name: undeclared, script: say.rhai, for_each: {in: inputs.files}}
      """
    And the Rhai script "say.rhai":
      """
      #{}
      """
    When I run `ensemble validate wrong.yaml`
    Then the exit code is 2
    And stdout says "E025"
    And stdout says "`for_each` is not allowed for an agent of type input"
