Feature: Inputs
  What a run takes by name is declared, checked before anything runs, and read by name.

  Background:
    Given the ensemble "a.yaml":
      """
      name: report
      inputs:
        topic: {type: string, description: What the report is about.}
        rounds: {type: integer, minimum: 1, default: 2}
        tags: {type: array, items: {type: string}, default: []}
      agents:
        - name: rhai
          script: show.rhai
          conversation: {max_turns: 9, trigger: every_turn}
        - name: sh
          script: show.sh
          dependencies: [{agent_name: rhai, condition: "inputs.topic == '3' and len(inputs.tags) == 0"}]
        - name: llm
          model_profile: echo
          prompt: "{{ inputs.topic }} {{ inputs.rounds }} {{ inputs.tags | length }} {{ context.topic }}"
          depends_on: [sh]
      model_profiles:
        echo: {provider: simulated, script: echo.rhai}
      conversation_limits: {max_total_turns: 3}
      """
    And the Rhai script "show.rhai":
      """
      #{ seen: inputs, topic: inputs.topic, tags: inputs.tags.len(), in_context: context.topic }
      """
    And the Rhai script "echo.rhai":
      """
      prompt
      """
    And the file "show.sh":
      """
      read -r line
      echo "$line" | grep -o '"inputs":{[^}]*}'
      """

  Scenario: Inputs are given by name and have defaults
    When I run `ensemble run a.yaml --set topic=3 --output json`
    Then it ends as "max_total_turns" with exit code 4
    And execution 1 of "rhai" gave "seen" = {"topic": "3", "rounds": 2, "tags": []}
    And execution 1 of "rhai" gave "in_context" = "3"
    And execution 1 of "sh" gave "response" = "\"inputs\":{\"topic\":\"3\",\"rounds\":2,\"tags\":[]}"
    And execution 1 of "llm" gave "response" = "3 2 0 3"
    And the result has "inputs" = {"topic": "3", "rounds": 2, "tags": []}
    And the final state has "rounds" = 2

  Scenario: A file gives inputs, and the command line comes first
    Given the file "inputs.yaml":
      """
      topic: the sea
      rounds: 3
      tags: [blue, deep]
      """
    When I run `ensemble run a.yaml --context inputs.yaml --set rounds=5 --output json`
    Then it ends as "max_total_turns" with exit code 4
    And the result has "inputs" = {"topic": "the sea", "rounds": 5, "tags": ["blue", "deep"]}
    And execution 1 of "rhai" gave "tags" = 2

  Scenario: All wrong inputs are reported at once, before anything runs
    When I run `ensemble run a.yaml --set round=4 --set rounds=0 --set tags=blue`
    Then the exit code is 2
    And stderr says "the input `topic` is missing (string)"
    And stderr says "there is no input `round`; did you mean `rounds`?"
    And stderr says "the input `rounds` does not match its schema: 0 is less than the minimum of 1"
    And stderr says "the input `tags` does not match its schema: "blue" is not of type "array""
    And no run was started

  Scenario: Without declared inputs, everything goes into the context as before
    Given the ensemble "b.yaml":
      """
      name: free
      agents:
        - {name: one, script: one.rhai}
      """
    And the Rhai script "one.rhai":
      """
      #{ seen: context.anything, inputs: inputs }
      """
    When I run `ensemble run b.yaml --set anything=3 --output json`
    Then it ends as "completed" with exit code 0
    And execution 1 of "one" gave "seen" = 3
    And execution 1 of "one" gave "inputs" = {}
    And the result has "inputs" = {}

  Scenario: An input that nobody declared is an error before a run
    Given the ensemble "b.yaml":
      """
      name: slips
      inputs:
        topic: {type: string}
      agents:
        - name: one
          model: simulated/x
          prompt: "{{ inputs.topic }} {% if inputs.tpoic %}!{% endif %}"
        - name: two
          script: s.rhai
          dependencies: [{agent_name: one, condition: "inputs.get('round', 1) == 1"}]
      """
    And the Rhai script "s.rhai":
      """
      1
      """
    When I run `ensemble validate b.yaml --format json`
    Then the exit code is 2
    And the findings include:
      | place | message                           |
      | 7:46  | the input `tpoic` is not declared |
      | 10:61 | the input `round` is not declared |

  Scenario: A run that goes on, is forked, repeated or replayed keeps its inputs
    When I run `ensemble run a.yaml --set topic=3`
    And I run `ensemble replay {run}`
    Then the exit code is 0
    When I run `ensemble fork {run} --at-turn 1 --output json`
    Then it ends as "max_total_turns" with exit code 4
    And execution 1 of "llm" gave "response" = "3 2 0 3"
    When I run `ensemble fork {run} --at-turn 1 --set rounds=7 --output json`
    Then it ends as "max_total_turns" with exit code 4
    And execution 1 of "llm" gave "response" = "3 7 0 3"
    And execution 1 of "rhai" gave "seen" = {"topic": "3", "rounds": 2, "tags": []}
    And execution 2 of "rhai" gave "seen" = {"topic": "3", "rounds": 7, "tags": []}
    When I run `ensemble fork {run} --at-turn 1 --set rounds=none`
    Then the exit code is 2
    When I run `ensemble rerun {run} --from rhai@2 --output json`
    Then it ends as "max_total_turns" with exit code 4
    And execution 2 of "rhai" gave "seen" = {"topic": "3", "rounds": 7, "tags": []}
    When I run `ensemble continue {run} "more" --output json`
    Then it ends as "max_total_turns" with exit code 4
    And execution 4 of "rhai" gave "seen" = {"topic": "3", "rounds": 7, "tags": []}
    When I run `ensemble replay {run}`
    Then the exit code is 0

  Scenario: An ensemble inside another checks its inputs when it starts
    Given the ensemble "outer.yaml":
      """
      name: outer
      agents:
        - {name: inner, ensemble: a.yaml}
        - {name: after, script: after.rhai, dependencies: [{agent_name: inner, on: failure}]}
      """
    And the Rhai script "after.rhai":
      """
      failures.inner
      """
    When I run `ensemble run outer.yaml --output json`
    Then it ends as "completed" with exit code 0
    And execution 1 of "inner" failed (schema) saying "the input `topic` is missing (string)"

  Scenario: An agent gives inputs and an input to the ensemble that it runs
    Given the ensemble "inner.yaml":
      """
      name: inner
      inputs:
        words: {type: array, items: {type: string}}
        count: {type: integer}
        note: {type: string, default: none}
        deep: {type: object, default: {}}
      result: {given: inputs, task: input, tone: context.tone}
      agents:
        - {name: one, script: one.rhai}
      """
    And the ensemble "outer.yaml":
      """
      name: outer
      inputs:
        limit: {type: integer, default: 3}
      agents:
        - {name: source, script: source.rhai}
        - name: inner
          ensemble: inner.yaml
          depends_on: [source]
          config: {tone: calm}
          prompt: "Look at {{ source.words | length }} words"
          inputs:
            words: "{{ source.words }}"
            count: "{{ inputs.limit + 1 }}"
            note: "for {{ input }}"
            deep: {list: ["{{ source.words[0] }}", 2], all: "{{ source }}"}
      """
    And the Rhai script "source.rhai":
      """
      #{ words: ["sea", "sky"] }
      """
    And the Rhai script "one.rhai":
      """
      #{ unit: context.tone, seen: inputs.words.len() }
      """
    When I run `ensemble run outer.yaml -i you --output json`
    Then it ends as "completed" with exit code 0
    And execution 1 of "inner" gave "given" = {"words": ["sea", "sky"], "count": 4, "note": "for you", "deep": {"list": ["sea", 2], "all": {"words": ["sea", "sky"]}}}
    And execution 1 of "inner" gave "task" = "Look at 2 words"
    And execution 1 of "inner" gave "tone" = "calm"

  Scenario: Inputs that the inner ensemble does not take are a failure
    Given the ensemble "outer.yaml":
      """
      name: outer
      agents:
        - {name: inner, ensemble: a.yaml, on_error: continue, inputs: {topic: [1], round: 3}}
      """
    When I run `ensemble run outer.yaml --output json`
    Then it ends as "completed" with exit code 0
    And execution 1 of "inner" failed (schema) saying "the input `topic` does not match its schema: [1] is not of type "string""
    And execution 1 of "inner" failed (schema) saying "there is no input `round`; did you mean `rounds`?"

  Scenario: Without declared inputs, what an agent gives goes into the inner context
    Given the ensemble "inner.yaml":
      """
      name: inner
      result: {seen: context.topic, inputs: inputs, kept: context.tone}
      agents:
        - {name: one, script: one.rhai}
      """
    And the Rhai script "one.rhai":
      """
      1
      """
    And the ensemble "outer.yaml":
      """
      name: outer
      agents:
        - {name: inner, ensemble: inner.yaml, config: {topic: old, tone: calm}, inputs: {topic: "{{ input }}"}}
      """
    When I run `ensemble run outer.yaml -i sea --output json`
    Then it ends as "completed" with exit code 0
    And the final state has "inner" = {"seen": "sea", "inputs": {}, "kept": "calm"}

  Scenario: The arguments of an ensemble as a tool are its inputs
    Given the ensemble "inner.yaml":
      """
      name: inner
      inputs:
        topic: {type: string}
        rounds: {type: integer, default: 2}
      result: {told: "inputs.topic + ' ' + str(inputs.rounds) + ' ' + input"}
      agents:
        - {name: one, script: one.rhai}
      """
    And the Rhai script "one.rhai":
      """
      1
      """
    And the ensemble "outer.yaml":
      """
      name: outer
      agents:
        - {name: caller, model_profile: caller, tools: [ask]}
      tools:
        ask: {ensemble: inner.yaml}
      model_profiles:
        caller:
          provider: simulated
          replies:
            - {tool_calls: [{name: ask, arguments: {topic: sea, input: go}}]}
            - {tool_calls: [{name: ask, arguments: {rounds: 3}}]}
            - done
      """
    When I run `ensemble run outer.yaml -i hello --output json`
    Then it ends as "completed" with exit code 0
    When I run `ensemble runs show {run} -v`
    Then stdout says "sea 2 go"
    And stdout says "is a required property"

  Scenario: What an agent gives by name is checked before a run
    Given the ensemble "outer.yaml":
      """
      name: outer
      agents:
        - {name: one, script: s.rhai, inputs: {topic: 1}}
        - {name: two, ensemble: a.yaml, inputs: {a-b: 1}}
        - {name: three, ensemble: a.yaml, inputs: {topic: ["{{ wirter }}", "{{ inputs.x }}"]}}
      """
    And the Rhai script "s.rhai":
      """
      1
      """
    When I run `ensemble validate outer.yaml --format json`
    Then the exit code is 2
    And the findings include:
      | place | message                                            |
      | 3:33  | `inputs` is not allowed for an agent of type script |
      | 4:44  | 'a-b' is not a valid name of an input              |
    Given the ensemble "outer.yaml":
      """
      name: outer
      agents:
        - {name: three, ensemble: a.yaml, inputs: {topic: ["{{ wirter }}", "{{ inputs.x }}"]}}
      """
    When I run `ensemble validate outer.yaml --format json`
    Then the exit code is 2
    And the findings include:
      | place | message                       |
      | 3:58  | unknown variable `wirter`     |
      | 3:81  | the input `x` is not declared |

  Scenario: What an ensemble takes and gives is told
    Given the ensemble "c.yaml":
      """
      name: report
      description: Writes a report.
      default_task: Write.
      inputs:
        topic: {type: string, description: What it is about.}
        tags: {type: array, items: {type: string}, default: [a]}
        tone: {enum: [dry, warm], default: dry}
      result: {text: outputs.writer.response}
      agents:
        - {name: writer, model: simulated/x}
        - {name: boss, input: "Is it good?"}
      """
    When I run `ensemble explain c.yaml`
    Then the exit code is 0
    And stdout is:
      """
      report
        Writes a report.

      input: a text, default "Write."
      inputs:
        topic (string, required): What it is about.
        tags (array of string, default ["a"])
        tone (one of "dry", "warm", default "dry")
      result:
        text: outputs.writer.response
      asks a person:
        boss: Is it good?
      """
