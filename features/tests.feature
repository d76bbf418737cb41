Feature: Tests of ensembles
  What a conversation must do stands in a test file. The tests are kept right, and are tested themselves.

  Background:
    Given the ensemble "team.yaml":
      """
      name: team
      agents:
        - name: writer
          script: touch written
          dependencies:
            - {agent_name: reviewer, feedback: true, condition: not output.approved}
          conversation: {max_turns: 2}
        - {name: reviewer, script: touch reviewed, depends_on: [writer], conversation: {max_turns: 2}}
      """

  Scenario: What the run contradicts is rewritten where it stands, and nothing else
    Given the file "team.test.yaml":
      """
      cases:
        # The short way.
        - name: at once
          stubs: {writer: Hello., reviewer: {json: {approved: true}}}
          expect:
            outcome: max_total_turns # it was so
            turns: [writer, reviewer]
            never: [reviewer]
      """
    When I run `ensemble test --update`
    Then the exit code is 0
    And stdout says "UPDATED ./team.test.yaml: at once"
    And the file "team.test.yaml" holds:
      """
      cases:
        # The short way.
        - name: at once
          stubs: {writer: Hello., reviewer: {json: {approved: true}}}
          expect:
            outcome: completed # it was so
            turns: [writer, reviewer]
      """
    When I run `ensemble test`
    Then the exit code is 0

  Scenario: In CI, no file is rewritten
    Given the environment variable CI is "true"
    And the file "team.test.yaml":
      """
      cases: [{name: wrong, stubs: {writer: {fail: no}}, expect: {outcome: completed}}]
      """
    When I run `ensemble test --update`
    Then the exit code is 2
    And the file "team.test.yaml" holds:
      """
      cases: [{name: wrong, stubs: {writer: {fail: no}}, expect: {outcome: completed}}]
      """
    When I run `ensemble test --update --force-update`
    Then the exit code is 0
    And the file "team.test.yaml" holds:
      """
      cases: [{name: wrong, stubs: {writer: {fail: no}}, expect: {outcome: agent_failed}}]
      """

  Scenario: A case that cannot run does not come to pass by an update
    Given the file "team.test.yaml":
      """
      cases: [{name: half, stubs: {writer: Hello.}, expect: {outcome: completed}}]
      """
    When I run `ensemble test --update`
    Then the exit code is 1
    And the file "team.test.yaml" holds:
      """
      cases: [{name: half, stubs: {writer: Hello.}, expect: {outcome: completed}}]
      """

  Scenario: A change of the ensemble that no case notices is shown
    Given the file "team.test.yaml":
      """
      cases:
        - name: at once
          stubs: {writer: Hello., reviewer: {json: {approved: true}}}
          expect: {turns: [writer, reviewer]}
      """
    When I run `ensemble test --mutate`
    Then the exit code is 1
    And stdout says "noticed  ./team.yaml:6:59: writer: `not output.approved` -> `output.approved`, by "at once""
    And stdout says "SURVIVED ./team.yaml:7:31: writer: `max_turns: 2` -> `1`"
    Given the file "team.test.yaml":
      """
      cases:
        - name: at once
          stubs: {writer: Hello., reviewer: {json: {approved: true}}}
          expect: {turns: [writer, reviewer]}
        - name: never
          stubs: {writer: Hello., reviewer: {json: {approved: false}}}
          expect: {turns: [writer, reviewer, writer, reviewer]}
      """
    When I run `ensemble test --mutate`
    Then the exit code is 0
    And stdout does not say "SURVIVED"

  Scenario: Suggested cases are a test file that passes and leaves nothing out
    When I run `ensemble test team.yaml --suggest`
    Then the exit code is 0
    When I save what it printed as "team.test.yaml"
    And I run `ensemble test --coverage`
    Then the exit code is 0
    And stdout says "agents 2/2, dependencies 2/2, conditions 2/2, outcomes 2/2"

  Scenario: A live case is held several times, and a model judges it
    Given a model server "own" that answers, one after the other:
      | says Hello.                                        |
      | says {"reason": "It greets.", "verdict": true}     |
      | says Go away.                                      |
      | says {"reason": "It is rude.", "verdict": false}   |
    And the ensemble "greeting.yaml":
      """
      name: greeting
      agents: [{name: greeter, model_profile: m, prompt: Greet.}]
      model_profiles:
        m: {provider: openai, model: x, base_url: "{own}"}
      """
    And the file "greeting.test.yaml":
      """
      cases:
        - name: greets
          live: true
          repeat: 2
          pass_rate: 0.5
          expect:
            judge: [{criterion: It greets politely., agent: greeter, model_profile: m}]
      """
    When I run `ensemble test greeting.yaml`
    Then the exit code is 0
    And stdout says "PASS greeting.test.yaml: greets (1 of 2)"
    And "own" was asked 4 times
