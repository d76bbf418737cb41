Feature: Defaults
  What agents have in common is written once.

  Scenario: Agents take what they do not say themselves
    Given the ensemble "a.yaml":
      """
      name: team
      x-notes: [{anything: goes}]
      defaults:
        model_profile: fake
        system_prompt: Be brief.
        retry: {max_attempts: 2, delay_seconds: 0}
        config: {unit: km, deep: {a: 1}}
      agents:
        - name: writer
          prompt: Write.
          x-reviewed: true
        - name: counter
          script: counter.rhai
          config: {deep: {b: 2}}
          depends_on: [writer]
      model_profiles:
        fake: {provider: simulated, replies: [{error: busy}, a draft]}
      """
    And the Rhai script "counter.rhai":
      """
      if attempt == 1 { throw "not yet" }
      #{ parameters: parameters, attempt: attempt }
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "completed" with exit code 0
    And execution 1 of "writer" gave "response" = "a draft"
    And execution 1 of "counter" gave "parameters" = {"deep": {"b": 2}, "unit": "km"}
    And execution 1 of "counter" gave "attempt" = 2

  Scenario: An error in the defaults stands where it was written
    Given the ensemble "a.yaml":
      """
      name: team
      defaults:
        timeout_secnds: 4
        retry: {backoff: linear, max_attempts: 0}
      agents:
        - {name: one, script: s.rhai}
        - {name: two, script: s.rhai}
      """
    When I run `ensemble validate a.yaml --format json`
    Then the exit code is 2
    And the findings are:
      | severity | place | message |
      | error    | 3:3   | unknown key 'timeout_secnds' in `defaults` |
      | error    | 4:42  | expected an integer of at least 1 |
