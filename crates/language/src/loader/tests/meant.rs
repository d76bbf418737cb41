//! Which files in a folder are ensembles: broken ones too, and those of other programs not.

use super::loaded;

#[test]
fn ensembles_are_told_from_files_of_other_programs() {
    let ensembles = [
        "name: t\nagents: [{name: a, script: x}]\n",
        // Broken ones.
        "agents: [{name: a, script: x}]\n",
        "agents: [text, {name: a}]\n",
        "name: t\nagents: [{nme: a, script: x}]\n",
        "name: t\nagents: []\n",
        "name: t\nagents:\n",
        "name: t\nagnets: [{name: a, script: x}]\n",
        "name: t\nagents: [\n",
    ];
    for text in ensembles {
        assert!(loaded(text).looks_like_ensemble(), "{text}");
    }
    let others = [
        // Pipelines of a CI server, values of a chart, the agents of a repository.
        "agents: {queue: default}\nsteps: [{command: make}]\n",
        "agents:\n  replicas: 2\n  image: {repository: x}\n",
        "agents:\n- id: path/to/agent\n",
        "agents: [x86, arm]\n",
        // The steps of a build, which mean no agents.
        "name: build\nsteps: [{name: make}]\n",
        // Agents by name, as other frameworks write them.
        "name: crew\nagents:\n  researcher: {role: r, goal: g, backstory: b}\n",
        "version: '2'\nagents:\n  root: {model: m, instruction: i}\n",
        "apiVersion: v1\nkind: ConfigMap\ndata: {agents: x}\n",
        "agents:\n",
        "- agents\n",
        "",
    ];
    for text in others {
        assert!(!loaded(text).looks_like_ensemble(), "{text}");
    }
}
