#!/usr/bin/env node
// Only the guard: nothing is imported before it, because a native module built for a newer Node ends an older
// one with a segmentation fault instead of a message.
if (Number.parseInt(process.versions.node, 10) < 26) {
  process.stderr.write(
    `compliance-mirror needs Node 26 or newer, and this is ${process.versions.node}: install a newer Node, or run it through npm ("npm start", "npm run cli -- COMMAND"), which brings its own.\n`,
  );
  process.exitCode = 2;
} else {
  // Node would open its debugger, and through it any user of this machine could read every secret: some tools that rotate logs send it.
  process.on('SIGUSR1', () => undefined);
  const { setFlagsFromString } = await import('node:v8');
  // Two settings of V8 that save a sixth of a busy service's memory, for no processor time that could be told from noise.
  // New objects are collected once they take half of their room: the rest of it is never touched.
  setFlagsFromString('--minor-gc-task-trigger=50');
  // A heap grows by half before all of it is collected. By default it grows to four times what is in use.
  setFlagsFromString('--heap-growing-percent=50');
  const { run } = await import('./cli/run.ts');
  process.exitCode = await run(process.argv.slice(2));
  // The work is over: a socket that somebody keeps alive must not hold the process, nor its exit code, back.
  setTimeout(() => process.exit(), 500).unref();
}

export {};
