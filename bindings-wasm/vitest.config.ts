import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["tests/**/*.test.ts"],
    setupFiles: ["tests/support/setup.ts"],
    globalSetup: ["tests/support/origin.ts"],
    execArgv: ["--expose-gc"],
    testTimeout: 60_000, // for slow machines; tests of short times count events, or use a clock of their own
    hookTimeout: 60_000,
    fileParallelism: false, // test files share one origin, and each test gives it a script of its own
  },
});
