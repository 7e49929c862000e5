"""The actions and workflows of .github: their steps are run as a runner would."""
