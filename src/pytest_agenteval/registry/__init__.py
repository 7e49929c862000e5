"""Names of agents, graders, tools and the rest: who offers them, and what each stands for."""
