import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["tests/**/*.test.ts"],
    setupFiles: ["tests/support/setup.ts"],
    globalSetup: ["tests/support/origin.ts"],
    execArgv: ["--expose-gc"],
    fileParallelism: false, // they share one origin, and each test gives it a script of its own
  },
});
