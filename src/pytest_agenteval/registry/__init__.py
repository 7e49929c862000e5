"""The registered names of agents, graders, tools and the rest, with what each stands for."""
