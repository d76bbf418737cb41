Feature: What an agent is told
  A prompt without variables is followed by the input and by what has been said; a template says itself what it uses.

  Background:
    Given the file ".ensemble/config.yaml":
      """
      model_profiles:
        echo: {provider: simulated, script: echo.rhai}
      """
    And the Rhai script "echo.rhai":
      """
      #{ asked: prompt }.to_json()
      """

  Scenario: A prompt without variables hears everybody, dependencies first
    Given the ensemble "a.yaml":
      """
      name: all
      agents:
        - {name: poet, script: echo verse}
        - {name: critic, script: echo harsh, depends_on: [poet]}
        - {name: broken, script: exit 3, on_error: continue}
        - {name: late, script: echo late, depends_on: [judge]}
        - {name: judge, model_profile: echo, prompt: Decide., depends_on: [critic]}
      default_task: the sea
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "completed" with exit code 0
    And execution 1 of "judge" gave "asked" = "Decide.\n\n## Input\nthe sea\n\n## Output of critic\nharsh\n\n## Output of poet\nverse"
    And execution 1 of "judge" has "input_data.dependencies" = {"critic": 1, "poet": 1}

  Scenario: An agent without a prompt to which nothing was said is sent the plain input
    Given the ensemble "a.yaml":
      """
      name: plain
      agents:
        - {name: first, model_profile: echo}
        - {name: second, model_profile: echo, depends_on: [first]}
      default_task: the sea
      """
    When I run `ensemble run a.yaml --output json`
    Then execution 1 of "first" gave "asked" = "the sea"
    And execution 1 of "second" gave "asked" = "## Input\nthe sea\n\n## Output of first\n{\"asked\":\"the sea\"}"

  Scenario Outline: An agent's own words stand there only where it does not remember them
    Given the ensemble "a.yaml":
      """
      name: own
      agents:
        - name: poet
          model_profile: verses
          prompt: Go on.
          conversation: {max_turns: 2, memory: <memory>}
          dependencies: [{agent_name: poet, feedback: true}]
      model_profiles:
        verses: {provider: simulated, script: verses.rhai}
      """
    And the Rhai script "verses.rhai":
      """
      if messages.len() == 1 && execution == 1 { "verse" } else { #{ asked: prompt }.to_json() }
      """
    When I run `ensemble run a.yaml --output json`
    Then execution 2 of "poet" gave "asked" = <asked>

    Examples:
      | memory       | asked                                   |
      | conversation | "Go on."                                |
      | none         | "Go on.\\n\\n## Output of poet\\nverse" |

  Scenario: A prompt with a variable is sent as it stands
    Given the ensemble "a.yaml":
      """
      name: own-words
      agents:
        - {name: poet, script: echo verse}
        - {name: judge, model_profile: echo, prompt: "Judge {{ input }}.", depends_on: [poet]}
      default_task: the sea
      """
    When I run `ensemble run a.yaml --output json`
    Then execution 1 of "judge" gave "asked" = "Judge the sea."
    And execution 1 of "judge" has "input_data.dependencies" = {"poet": 1}

  Scenario: A template can tell the whole conversation
    Given the ensemble "a.yaml":
      """
      name: told
      agents:
        - {name: poet, script: echo verse}
        - {name: broken, script: broken.rhai, depends_on: [poet]}
        - name: judge
          model_profile: echo
          prompt: |
            {{ transcript }}
            {% for one in history %}{{ one.agent_name }}, {{ one.turn_number }}, {{ one.execution }}, {{ one.success }}: {{ one.output_data }}; {% endfor %}
            {{ history | length }} {{ history[-1].output_data.kind }} {{ history[7].output_data }} {{ history[0] | tojson }}
          dependencies: [{agent_name: broken, on: failure}]
      """
    And the Rhai script "broken.rhai":
      """
      throw "no"
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "completed" with exit code 0
    And execution 1 of "judge" gave "asked" = "## poet in turn 1\nverse\n\n## broken failed in turn 2\nbroken.rhai:1:1: no\npoet, 1, 1, True: verse; broken, 2, 1, False: {\"error\":\"broken.rhai:1:1: no\",\"kind\":\"reported\",\"exit_code\":null,\"stdout\":\"\",\"stderr\":\"\"}; \n2 reported  {\"agent_name\":\"poet\",\"turn_number\":1,\"execution\":1,\"output_data\":{\"response\":\"verse\"},\"success\":true}"
    And execution 1 of "judge" has "input_data.dependencies" = {"broken": 1, "poet": 1}

  Scenario: A script is given as much of the history as it asks for
    Given the ensemble "a.yaml":
      """
      name: given
      agents:
        - {name: poet, script: echo verse, conversation: {max_turns: 3, trigger: every_turn}}
        - {name: keeper, script: keep.rhai, depends_on: [poet], conversation: {max_turns: 3, history: 2}}
        - {name: child, script: cat, depends_on: [poet], conversation: {history: 1}}
        - {name: none, script: keep.rhai, depends_on: [poet]}
        - {name: nothing, script: cat, depends_on: [poet], conversation: {history: 0}}
      """
    And the Rhai script "keep.rhai":
      """
      let seen = [];
      for one in history { seen.push(`${one.agent_name} ${one.execution} ${one.turn_number} ${one.success}`); }
      #{ seen: seen }
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "completed" with exit code 0
    And execution 1 of "keeper" gave "seen" = ["poet 1 1 true"]
    And execution 2 of "keeper" gave "seen" = ["none 1 2 true", "nothing 1 2 true"]
    And execution 2 of "keeper" has "input_data.dependencies" = {"poet": 2, "nothing": 1, "none": 1}
    And execution 1 of "child" gave "history" = [{"agent_name": "poet", "turn_number": 1, "execution": 1, "output_data": {"response": "verse"}, "success": true}]
    And execution 1 of "none" gave "seen" = []
    And execution 1 of "nothing" gave "history" = []

  Scenario: Only scripts are given entries by their number
    Given the ensemble "a.yaml":
      """
      name: refused
      agents:
        - {name: poet, model: simulated/any, conversation: {history: 2}}
        - {name: inner, ensemble: b.yaml, conversation: {history: 2}}
        - {name: keeper, script: echo, conversation: {history: -1}}
      """
    When I run `ensemble validate a.yaml`
    Then the exit code is 2
    And stdout says "a.yaml:3:55"
    And stdout says "write `{{ transcript }}` or `{{ history }}`"
    And stdout says "a.yaml:4:52"
    And stdout says "a.yaml:5:58"

  Scenario: A key that an output does not have is warned of once
    Given the ensemble "a.yaml":
      """
      name: typo
      agents:
        - {name: writer, script: writer.rhai}
        - name: judge
          model_profile: overloaded
          prompt: "Judge <{{ writer.txet }}>{{ writer.txet }}{{ later.x }}{{ writer.more | default('') }}."
          system_prompt: "{{ writer.ohter }}"
          retry: {max_attempts: 2, delay_seconds: 0}
          depends_on: [writer]
          dependencies: [{agent_name: later, feedback: true}]
          on_error: continue
        - {name: later, script: echo later, dependencies: [{agent_name: judge, on: any}]}
        - {name: person, input: {prompt: "{{ writer.what }}?", default: well}, depends_on: [writer]}
      model_profiles:
        overloaded: {provider: simulated, replies: [{error: overloaded}]}
      """
    And the Rhai script "writer.rhai":
      """
      #{ text: "a text" }
      """
    When I run `ensemble run a.yaml --output json`
    Then the result has "warnings" = ["judge: system_prompt: `writer.ohter` is empty, because the output of writer has no `ohter`; it has text", "judge: prompt: `writer.txet` is empty, because the output of writer has no `txet`; it has text", "person: input.prompt: `writer.what` is empty, because the output of writer has no `what`; it has text"]

  Scenario: What an agent was told stands in the record, and is not sent twice
    Given the ensemble "a.yaml":
      """
      name: told
      agents:
        - name: judge
          model_profile: mirror
          system_prompt: "You judge {{ input }}."
          prompt: "Draft {{ execution }}"
          conversation: {max_turns: 2, trigger: every_turn}
      model_profiles:
        mirror: {provider: simulated, script: mirror.rhai}
      default_task: the sea
      """
    And the Rhai script "mirror.rhai":
      """
      let text = "";
      for message in messages { text += `[${message.role}] ${message.content} `; }
      text
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "completed" with exit code 0
    And execution 2 of "judge" gave "response" = "[system] You judge the sea. [user] Draft 1 [assistant] [system] You judge the sea. [user] Draft 1  [user] Draft 2 "
    When I run `ensemble runs show --last --output json`
    Then the result has "story.1.executions.0.asked" = {"system": "You judge the sea.", "prompt": "Draft 2"}
    When I run `ensemble runs show --last -v`
    Then stdout says "system: You judge the sea."
    And stdout says "prompt: Draft 2"
    When I run `ensemble replay --last`
    Then the exit code is 0
