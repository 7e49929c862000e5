"""What users see, as texts below ``expected/``: ``python -m tests.frozen`` compares, ``--accept`` writes.

Scores of the evals that ship, screens, documents, help, exit statuses, JUnit and HTML files, old runs,
recordings and public names. All of it is made through the public face, the command line and files, so it
stays as it is while modules move.

A difference is a mistake, or a change for users. The second is accepted by hand: read the diff, write it with
``--accept``, and say in a line of CHANGELOG.md what users will notice.
"""
