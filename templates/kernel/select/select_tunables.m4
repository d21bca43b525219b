m4_divert(-1)
m4_dnl select_tunables.m4 -- the tunables of kernels that select pages.
km_tunable(«strip», 4, «1, 2, 4», «vectors of keys that are counted at a time»)
km_tunable(«shrink», 2, «2, 4, 8», «keys are packed when no more than one of so many can still be the threshold»)
km_tunable(«sample», 128, «0, 64, 128, 256», «keys by which the others are guessed; 0: all are counted»)
km_tunable(«guess», 4096, «1024, 2048, 4096, 8192», «scores from which the threshold is guessed»)
km_limit(«km_sample > 0 || km_guess == km_preset_guess», «without a sample there is nothing to guess by»)
m4_divert(0)m4_dnl
