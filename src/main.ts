#!/usr/bin/env node
// This file imports nothing before it has checked Node's version: on an older Node, a native module built for a
// newer one ends in a segmentation fault instead of a message.
if (Number.parseInt(process.versions.node, 10) < 26) {
  // An installed package and npx have no scripts of ours; in a clone npm brings the right Node along.
  const way = import.meta.url.includes('/node_modules/')
    ? 'npx -p node@26 -p compliance-mirror compliance-mirror COMMAND'
    : 'npm start, npm run demo, or npm run cli -- COMMAND';
  process.stderr.write(
    `compliance-mirror needs Node 26 or newer, and this is ${process.versions.node}. This brings its own: ${way}\n`,
  );
  process.exitCode = 2;
} else {
  // Some tools that rotate logs send SIGUSR1. Node would open its debugger, and any user of this machine could read every secret.
  process.on('SIGUSR1', () => undefined);
  const { setFlagsFromString } = await import('node:v8');
  // These two settings of V8 save a sixth of a busy service's memory.
  // New objects are collected when they fill half of their space, so the other half is never touched.
  setFlagsFromString('--minor-gc-task-trigger=50');
  // The whole heap is collected after it has grown by half. By default it grows to four times what is in use. This saves 30 MiB at the peak
  // and costs about 5 % of processor time on SQLite.
  setFlagsFromString('--heap-growing-percent=50');
  const { run } = await import('./cli/run.ts');
  process.exitCode = await run(process.argv.slice(2));
  // The work is over: a socket that somebody keeps open must not delay the exit.
  setTimeout(() => process.exit(), 500).unref();
}

export {};
