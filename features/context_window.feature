Feature: Context windows
  A long thread is cut before it is sent. A tool call is never separated from its result, and the record stays whole.

  Background:
    Given the Rhai script "dig.rhai":
      """
      let found = "";
      for metre in 0..40 { found += `metre ${metre}: sand; `; }
      `hole ${parameters.n}: ${found}`
      """
    And the Rhai script "digger.rhai":
      """
      // Digs ten holes, then says which results it was shown, and whether it still knew the task.
      let last = 0;
      let shown = [];
      for message in messages {
        if message.role == "user" { shown.push(message.content); }
        for used in message.get("tool_calls", []) {
          last = used.arguments.n;
          shown.push(if used.result.contains("left out here") { `${last} cut` } else { `${last}` });
        }
      }
      if last < 10 {
        #{ tool_calls: [#{ name: "dig", arguments: #{ n: last + 1 } }] }
      } else {
        let text = "";
        for word in shown { text += word + ", "; }
        text
      }
      """

  Scenario: Old tool calls of a long tool loop are left out with their results
    Given the ensemble "dig.yaml":
      """
      name: dig
      default_task: Dig!
      agents:
        - name: digger
          model_profile: m
          tools: [dig]
          max_iterations: 20
          context_window: {max_tokens: 500}
      model_profiles:
        m: {provider: simulated, script: digger.rhai}
      tools:
        dig: {script: dig.rhai, parameters: {type: object}}
      """
    When I run `ensemble run dig.yaml --output json`
    Then it ends as "completed" with exit code 0
    And execution 1 of "digger" gave "response" = "Dig!, 8, 9, 10, "
    And there are no warnings
    When I run `ensemble runs show --last`
    Then stdout says "context window: 14 messages of about 1141 tokens (estimated at 4 bytes a token) were not sent"
    And stdout says "hole 1: metre 0"

  Scenario: The middle of a long tool loop is left out
    Given the ensemble "dig.yaml":
      """
      name: dig
      default_task: Dig!
      agents:
        - name: digger
          model_profile: m
          tools: [dig]
          max_iterations: 20
          context_window: {max_messages: 7, strategy: middle_out}
      model_profiles:
        m: {provider: simulated, script: digger.rhai}
      tools:
        dig: {script: dig.rhai, parameters: {type: object}}
      """
    When I run `ensemble run dig.yaml --output json`
    Then it ends as "completed" with exit code 0
    And execution 1 of "digger" gave "response" = "Dig!, 1, 9, 10, "

  Scenario: A tool result that is larger than the window is shortened, with a warning
    Given the ensemble "dig.yaml":
      """
      name: dig
      default_task: Dig!
      agents:
        - name: digger
          model_profile: m
          tools: [dig]
          max_iterations: 20
          context_window: {max_tokens: 160}
      model_profiles:
        m: {provider: simulated, script: digger.rhai}
      tools:
        dig: {script: dig.rhai, parameters: {type: object}}
      """
    When I run `ensemble run dig.yaml --output json`
    Then it ends as "completed" with exit code 0
    And execution 1 of "digger" gave "response" = "Dig!, 10 cut, "
    And a warning says "the context window is too small for a result of the tool `dig`: only its beginning and its end are sent"
    When I run `ensemble runs show --last`
    Then stdout says "1 tool result shortened by about"

  Scenario: A summary stands for the old tool calls of a loop
    Given the ensemble "dig.yaml":
      """
      name: dig
      default_task: Dig!
      agents:
        - name: digger
          model_profile: m
          tools: [dig]
          max_iterations: 20
          context_window: {max_tokens: 1000, strategy: {summarize: scribe}}
      model_profiles:
        m: {provider: simulated, script: digger.rhai}
        scribe: {provider: simulated, replies: [Only sand.]}
      tools:
        dig: {script: dig.rhai, parameters: {type: object}}
      """
    When I run `ensemble run dig.yaml --output json`
    Then it ends as "completed" with exit code 0
    And execution 1 of "digger" gave "response" = "The first part of our conversation is not shown any more. In short, it was this:\n\nOnly sand., Dig!, 7, 8, 9, 10, "
    And the result has "usage.requests" = 12

  Scenario: A script leaves out all messages of tools
    Given the Rhai script "keep.rhai":
      """
      messages.filter(|message| message.role != "tool")
      """
    And the ensemble "dig.yaml":
      """
      name: dig
      default_task: Dig!
      agents:
        - name: digger
          model_profile: m
          tools: [dig]
          max_iterations: 20
          context_window: {strategy: {custom: keep.rhai}}
      model_profiles:
        m: {provider: simulated, script: digger.rhai}
      tools:
        dig: {script: dig.rhai, parameters: {type: object}}
      """
    When I run `ensemble run dig.yaml --output json`
    Then it ends as "completed" with exit code 0
    And execution 1 of "digger" gave "response" = "Dig!, 10, "
    When I run `ensemble runs show --last`
    Then stdout says "context window: 18 messages"

  Scenario: The profile says how much the model can process
    Given the ensemble "dig.yaml":
      """
      name: dig
      default_task: Dig!
      agents:
        - name: digger
          model_profile: m
          tools: [dig]
          max_iterations: 20
      model_profiles:
        m: {provider: simulated, script: digger.rhai, context_window: 700, max_tokens: 200}
      tools:
        dig: {script: dig.rhai, parameters: {type: object}}
      """
    When I run `ensemble run dig.yaml --output json`
    Then it ends as "completed" with exit code 0
    And execution 1 of "digger" gave "response" = "Dig!, 8, 9, 10, "

  Scenario: The limit of the profile holds beside the rules of the agent
    Given the ensemble "dig.yaml":
      """
      name: dig
      default_task: Dig!
      agents:
        - name: digger
          model_profile: m
          tools: [dig]
          max_iterations: 20
          context_window: {<window>}
      model_profiles:
        m: {provider: simulated, script: digger.rhai, context_window: 500}
      tools:
        dig: {script: dig.rhai, parameters: {type: object}}
      """
    And in "dig.yaml" `<window>` becomes `max_messages: 5`
    When I run `ensemble run dig.yaml --output json`
    Then execution 1 of "digger" gave "response" = "Dig!, 9, 10, "
    When in "dig.yaml" `max_messages: 5` becomes `max_tokens: 700`
    And I run `ensemble run dig.yaml --output json`
    Then execution 1 of "digger" gave "response" = "Dig!, 7, 8, 9, 10, "
    When in "dig.yaml" `max_tokens: 700` becomes `strategy: {recent_turns_only: 3}`
    And I run `ensemble run dig.yaml --output json`
    Then execution 1 of "digger" gave "response" = "Dig!, 8, 9, 10, "

  Scenario: A request that is too long for the model is repeated without the older half
    Given a model server "small" that answers, one after the other:
      | says One. |
      | says Two. |
      | says Three. |
      | refuses with This model's maximum context length is 20 tokens. |
      | says Four. |
    And the ensemble "long.yaml":
      """
      name: long
      default_task: go
      agents:
        - name: talker
          model_profile: m
          prompt: "question {{ execution }}"
          conversation: {max_turns: 4, trigger: every_turn}
      model_profiles:
        m: {provider: openai, model: x, base_url: "{small}"}
      """
    When I run `ensemble run long.yaml --output json`
    Then it ends as "completed" with exit code 0
    And execution 4 of "talker" gave "response" = "Four."
    And the result has "usage.requests" = 5
    And request 4 to "small" had "messages.0.content" = "question 1"
    And request 5 to "small" had "messages.0.content" = "question 3"
    And a warning says "the request was too long for the model and was repeated without older messages (openai at"
    When I run `ensemble runs show --last`
    Then stdout says "context window: 4 messages of about"

  Scenario: A request of which nothing can be left out fails
    Given a model server "small" that answers, one after the other:
      | refuses with prompt is too long: 300 tokens > 200 maximum |
    And the ensemble "long.yaml":
      """
      name: long
      default_task: go
      agents: [{name: talker, model_profile: m}]
      model_profiles:
        m: {provider: openai, model: x, base_url: "{small}"}
      """
    When I run `ensemble run long.yaml --output json`
    Then it ends as "agent_failed" with exit code 1
    And execution 1 of "talker" failed (model) saying "prompt is too long: 300 tokens > 200 maximum; nothing can be left out of the request: the instructions, the task and the latest messages are always sent"
    And "small" was asked 1 time
