import { createRequire } from 'node:module';

/**
 * A process that runs one command of the built executable after the other, each as if it were alone: to start a process and
 * load the program costs half a second of processor time, most commands take a tenth of that. Started by executable.ts.
 */
const RUN = new URL('../../dist/src/cli/run.js', import.meta.url).pathname;
const { run } = createRequire(import.meta.url)(RUN) as { run: (args: readonly string[]) => Promise<number> };

export interface Asked {
  args: readonly string[];
  env: Record<string, string>;
  cwd: string;
}

// Each command leaves what it would do at the end of its process.
process.setMaxListeners(0);

process.on('message', async ({ args, env, cwd }: Asked) => {
  for (const name of Object.keys(process.env)) delete process.env[name];
  Object.assign(process.env, env);
  process.chdir(cwd);
  const said = { out: '', err: '' };
  const streams = { out: process.stdout, err: process.stderr };
  for (const name of ['out', 'err'] as const) {
    const decoder = new TextDecoder();
    streams[name].write = ((chunk: string | Uint8Array, ...rest: unknown[]) => {
      said[name] += typeof chunk === 'string' ? chunk : decoder.decode(chunk, { stream: true });
      const done = rest.find((each) => typeof each === 'function') as (() => void) | undefined;
      if (done !== undefined) setImmediate(done);
      return true;
    }) as typeof process.stdout.write;
  }
  const code = await run(args);
  for (const stream of Object.values(streams)) {
    stream.removeAllListeners('error');
    Reflect.deleteProperty(stream, 'write');
  }
  process.send!({ code, ...said });
});
