Feature: Result
  What a run gives is declared.

  Background:
    Given the Rhai script "writer.rhai":
      """
      #{ draft: "draft " + execution, words: [execution, execution + 1] }
      """
    And the Rhai script "judge.rhai":
      """
      #{ score: execution * 4 }
      """

  Scenario: The latest output of an agent
    Given the ensemble "a.yaml":
      """
      name: one
      result: writer
      agents:
        - {name: writer, script: writer.rhai, conversation: {max_turns: 2}, dependencies: [{agent_name: judge, feedback: true}]}
        - {name: judge, script: judge.rhai, depends_on: [writer]}
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "completed" with exit code 0
    And the result has "result" = {"draft": "draft 2", "words": [2, 3]}
    When I run `ensemble run a.yaml -q`
    Then stdout is:
      """
      draft: draft 2
      words: [2,3]
      """

  Scenario: A map of expressions over the last state
    Given the ensemble "a.yaml":
      """
      name: map
      inputs:
        unit: {type: string, default: points}
      result:
        text: outputs.writer.draft
        words: outputs.writer.words
        last: outputs.writer.words[-1]
        good: outputs.judge.score > 3 and not context.missing
        score: str(outputs.judge.score) + ' ' + inputs.unit
        rounds: executions.writer
        who: history[0].agent_name
        idle: outputs.get('nobody') if False else None
        either: outputs.judge.missing or 'none'
        fixed: 3
        all: "{'a': [1, 2.5, 'x'], 'b': context.score}"
      agents:
        - {name: writer, script: writer.rhai}
        - {name: judge, script: judge.rhai, depends_on: [writer]}
        - {name: nobody, script: judge.rhai, dependencies: [{agent_name: judge, condition: output.score > 9}]}
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "completed" with exit code 0
    And the result has "result" = {"text": "draft 1", "words": [1, 2], "last": 2, "good": true, "score": "4 points", "rounds": 1, "who": "writer", "idle": null, "either": "none", "fixed": 3, "all": {"a": [1, 2.5, "x"], "b": 4}}
    And the final state has "score" = 4
    When I run `ensemble replay {run}`
    Then the exit code is 0
    When I run `ensemble fork {run} --at-turn 1 --output json`
    Then it ends as "completed" with exit code 0
    And the result has "result.text" = "draft 1"

  Scenario: Without a declared result, the final state is the result
    Given the ensemble "a.yaml":
      """
      name: plain
      agents:
        - {name: judge, script: judge.rhai}
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "completed" with exit code 0
    And the result has "result" = {"score": 4, "judge": {"score": 4}}
    When I run `ensemble run a.yaml -q`
    Then stdout is:
      """
      score: 4
      """

  Scenario: An agent without output gives null
    Given the ensemble "a.yaml":
      """
      name: none
      result: late
      agents:
        - {name: judge, script: judge.rhai}
        - {name: late, script: judge.rhai, dependencies: [{agent_name: judge, condition: output.score > 9}]}
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "completed" with exit code 0
    And the result has "result" = null
    And there are no warnings

  Scenario: An expression without a value makes a good end condition_failed
    Given the ensemble "a.yaml":
      """
      name: wrong
      result:
        good: outputs.judge.score
        bad: outputs.judge.score / (outputs.judge.score - 4)
      agents:
        - {name: judge, script: judge.rhai}
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "condition_failed" with exit code 1
    And the result has "result" = {"good": 4, "bad": null}
    And stderr says "a.yaml:4:8"
    And stderr says "the expression cannot be evaluated: division by zero: 4 / 0"
    And stderr says "outputs.judge.score = 4"

  Scenario: Where a run ends badly anyway, such an expression gives null with a warning
    Given the ensemble "a.yaml":
      """
      name: wrong
      result:
        text: outputs.broken.text
        fixed: 1
      agents:
        - {name: broken, script: broken.rhai}
      """
    And the Rhai script "broken.rhai":
      """
      throw "no"
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "agent_failed" with exit code 1
    And the result has "result" = {"text": null, "fixed": 1}
    And a warning says "result `text` `outputs.broken.text`: `outputs.broken` is None"
    When I run `ensemble run a.yaml`
    Then stderr says "warning: result `text` `outputs.broken.text`: `outputs.broken` is None"

  Scenario: The result of an inner ensemble is the output of its agent
    Given the ensemble "inner.yaml":
      """
      name: inner
      result: {best: outputs.writer.draft}
      agents:
        - {name: writer, script: writer.rhai}
      """
    And the ensemble "single.yaml":
      """
      name: single
      result: writer
      agents:
        - {name: writer, script: writer.rhai}
      """
    And the ensemble "outer.yaml":
      """
      name: outer
      agents:
        - {name: one, ensemble: inner.yaml}
        - {name: two, ensemble: single.yaml}
        - {name: three, model_profile: caller, tools: [ask]}
      tools:
        ask: {ensemble: inner.yaml}
      model_profiles:
        caller:
          provider: simulated
          replies:
            - {tool_calls: [{name: ask, arguments: {input: go}}]}
            - done
      """
    When I run `ensemble run outer.yaml --output json`
    Then it ends as "completed" with exit code 0
    And execution 1 of "one" gave "best" = "draft 1"
    And the final state has "one" = {"best": "draft 1"}
    And the final state has "two" = {"draft": "draft 1", "words": [1, 2]}
    When I run `ensemble runs show {run} -v`
    Then stdout says "{"best":"draft 1"}"

  Scenario: What can be known of a result before a run is an error before a run
    Given the ensemble "a.yaml":
      """
      name: known
      result:
        a: outputs.jugde.score
        b: output.score
        c: inputs.unit
        d: 1 +
        e: [1]
        f: ""
      agents:
        - {name: judge, script: judge.rhai}
      """
    When I run `ensemble validate a.yaml --format json`
    Then the exit code is 2
    And the findings include:
      | place | message                                        |
      | 4:6   | unknown variable `output`: only conditions     |
      | 6:9   | unexpected end                                 |
      | 7:6   | expected an expression (a string), found a list |
      | 8:7   | the expression is blank                        |
    Given the ensemble "b.yaml":
      """
      name: known
      result:
        a: outputs.jugde.score
        c: inputs.unit
      agents:
        - {name: judge, script: judge.rhai}
      """
    When I run `ensemble validate b.yaml --format json`
    Then the exit code is 2
    And the findings include:
      | place | message                          |
      | 3:14  | there is no agent `jugde`        |
      | 4:13  | the input `unit` is not declared |
    Given the ensemble "c.yaml":
      """
      name: known
      result: jugde
      agents:
        - {name: judge, script: judge.rhai}
      """
    When I run `ensemble validate c.yaml`
    Then the exit code is 2
    And stdout says "did you mean `judge`?"
