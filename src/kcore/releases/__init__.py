"""The releases of Kafka whose rules kcore has: one module a release, as data.

A `Release` has the facts: metadata versions, features, versions of APIs, tables of settings. Its `Rules` say which
rules it follows. All other packages ask the release; none compares its name. A module lists what its release changed:
it is `replace(...)` of the release before.

Each of these changes has one place:
- A rule that a release changed: a field of `Rules`, False in the releases without the rule; the release's module sets
  it. The code that decides asks `config.rules` of a controller, `MetadataVersion.rules` or `Level.rules`.
- A fact: the field of `Release` in the release's module.
- A new release: its module, and its place in `known.py`.

- `rules.py`: the rules. `settings.py`: types of the tables of settings. `release.py`: a release.
- `k3_9_1.py`, `k4_1_2.py`, `k4_3_1.py`, `k4_4_0.py`: the releases.
  `broker_defaults.py`: the defaults of a broker's settings. `broker_settings.py`: their types, and which are secret.
  `setting_names.py`: the names in server.properties.
- `known.py`: all releases by name, and which of them is the default.
"""
