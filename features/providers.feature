Feature: Agents ask models over HTTP
  Any server that speaks a provider's dialect answers; what passes is waited out, what does not falls back.

  Scenario: A server of one's own answers, and gets nobody's key
    Given a model server "own" that answers, one after the other:
      | says The sea is big. |
    And the environment variable OPENAI_API_KEY is "sk-0123456789"
    And the ensemble "a.yaml":
      """
      name: own
      agents: [{name: poet, model_profile: own, prompt: "One line about {{ input }}."}]
      model_profiles:
        own: {provider: openai, model: some-model, base_url: "{own}", temperature: 0.2, seed: 7}
      default_task: the sea
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "completed" with exit code 0
    And execution 1 of "poet" gave "response" = "The sea is big."
    And the result has "usage.by_agent.poet.input_tokens" = 1000
    And the result has "simulated" = []
    And request 1 to "own" had "model" = "some-model"
    And request 1 to "own" had "temperature" = 0.2
    And request 1 to "own" had "messages.0.content" = "One line about the sea."
    And no request to "own" carried a key

  Scenario Outline: What passes is waited out
    Given a model server "shaky" that answers, one after the other:
      | <first>      |
      | says At last. |
    And the ensemble "a.yaml":
      """
      name: shaky
      agents: [{name: a, model_profile: m}]
      model_profiles:
        m: {provider: openai, model: x, base_url: "{shaky}", retry: {max_attempts: 2, delay_seconds: 0}}
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "completed" with exit code 0
    And execution 1 of "a" gave "response" = "At last."
    And the result has "usage.requests" = 2
    And "shaky" was asked 2 times

    Examples:
      | first                                     |
      | 429 Too Many Requests, come back in 0.01 s |
      | 503 Service Unavailable                   |
      | breaks off after Once upon                |

  Scenario: A provider that wants a long rest is left for its fallback
    Given a model server "tired" that answers, one after the other:
      | 429 Too Many Requests, come back in 3600 s |
    And a model server "fresh" that answers, one after the other:
      | says Here I am. |
    And the ensemble "a.yaml":
      """
      name: tired
      agents: [{name: a, model_profile: m}]
      model_profiles:
        m: {provider: openai, model: x, base_url: "{tired}", fallback: n}
        n: {provider: openai, model: y, base_url: "{fresh}"}
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "completed" with exit code 0
    And execution 1 of "a" gave "response" = "Here I am."
    And a warning says "asks for a pause of 3600 s"
    And "tired" was asked 1 time

  Scenario: What is wrong is told with what to do
    Given a model server "strict" that answers, one after the other:
      | 401 Unauthorized |
    And the ensemble "a.yaml":
      """
      name: wrong
      agents: [{name: a, model_profile: m}]
      model_profiles:
        m: {provider: openai, model: x, base_url: "{strict}"}
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "agent_failed" with exit code 1
    And execution 1 of "a" failed (model) saying "no key was sent: name its environment variable with `api_key_env`"
    And "strict" was asked 1 time

  Scenario: A budget in money ends the conversation
    Given a model server "dear" that answers, one after the other:
      | says More? |
    And the ensemble "a.yaml":
      """
      name: dear
      agents:
        - name: a
          model_profile: m
          conversation: {max_turns: 9, trigger: every_turn}
      conversation_limits: {max_cost: 0.01}
      model_profiles:
        m: {provider: openai, model: x, base_url: "{dear}", cost: {input_per_million: 3, output_per_million: 10}}
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "token_budget" with exit code 4
    And the result has "detail" = "max_cost 0.01 was reached: 0.01"
    And "dear" was asked 2 times

  Scenario: A budget in tokens that is exactly used up is reached
    Given a model server "wordy" that answers, one after the other:
      | says More? |
    And the ensemble "a.yaml":
      """
      name: wordy
      agents:
        - name: a
          model_profile: m
          conversation: {max_turns: 9, trigger: every_turn}
      conversation_limits: {max_total_tokens: <budget>}
      model_profiles:
        m: {provider: openai, model: x, base_url: "{wordy}"}
      """
    And in "a.yaml" `<budget>` becomes `2400`
    When I run `ensemble run a.yaml --output json`
    Then it ends as "token_budget" with exit code 4
    And the result has "detail" = "max_total_tokens 2400 was reached: 2400 tokens"
    And "wordy" was asked 2 times

  Scenario: Models are tried before they are needed
    Given a model server "up" that answers, one after the other:
      | says ok |
    And the ensemble "a.yaml":
      """
      name: tried
      agents:
        - {name: a, model_profile: up}
        - {name: b, model_profile: keyless}
      model_profiles:
        up: {provider: openai, model: x, base_url: "{up}"}
        keyless: {provider: anthropic, model: y}
      """
    When I run `ensemble models check a.yaml --format json`
    Then the exit code is 1
    And the result has "models.0.ok" = true
    And the result has "models.1.error" = "there is no key for anthropic: set the environment variable ANTHROPIC_API_KEY"

  Scenario: A parameter that a model refuses is sent under its other name
    Given a model server "picky" that answers, one after the other:
      | refuses with Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead. |
      | says Here I am. |
    And the ensemble "a.yaml":
      """
      name: picky
      agents: [{name: a, model_profile: m}]
      model_profiles:
        m: {provider: openai, model: x, base_url: "{picky}", max_tokens: 50, options: {reasoning_effort: low}}
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "completed" with exit code 0
    And execution 1 of "a" gave "response" = "Here I am."
    And request 2 to "picky" had "max_completion_tokens" = 50
    And request 2 to "picky" had "reasoning_effort" = "low"

  Scenario: What a model thinks is no part of its reply
    Given a model server "thinker" that answers, one after the other:
      | says <think>A short one will do.</think>The sea. |
    And the ensemble "a.yaml":
      """
      name: thinker
      agents: [{name: a, model_profile: m}]
      model_profiles:
        m: {provider: openai, model: x, base_url: "{thinker}"}
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "completed" with exit code 0
    And execution 1 of "a" gave "response" = "The sea."
