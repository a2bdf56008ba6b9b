import { on } from 'node:events';
import { createInterface, type Interface } from 'node:readline';
import { Writable } from 'node:stream';
import { MirrorError, UsageError } from '../../platform/errors.ts';

export interface Question {
  text: string;
  /** What an empty answer means; a secret is described, as by "the one that is set". */
  otherwise?: string | undefined;
  /** Not shown as it is typed. */
  isHidden?: boolean;
  /** The option by which a script gives the answer, such as "--base-url". */
  flag: string;
}

/** Who answers: a person at a terminal, or nobody. Then only options and present settings count. */
export interface Asker {
  isPerson: boolean;
  /** Empty: what `otherwise` says. Rejects if nobody answers and there is no `otherwise`. */
  ask(question: Question): Promise<string>;
  /** Resolves when Enter is pressed from now on; never after `until` has aborted, nor if there is nobody. */
  enter(until: AbortSignal): Promise<void>;
  /** Stops reading standard input, so that others can read it. The next question reads it again. */
  release(): void;
}

/** For scripts: a question without `otherwise` is a usage error. */
export const nobody: Asker = {
  isPerson: false,
  async ask({ text, otherwise, flag }) {
    if (otherwise !== undefined) return '';
    throw new UsageError(`${text}: not given, and nobody is asked`, `give it with ${flag}`);
  },
  enter: () => new Promise(() => undefined),
  release: () => undefined,
};

const NO_ANSWER = 'the input ended before everything was answered';

/** `signal` ends the questions. Ctrl-C still sends a signal to the process. */
export function personAt(input: NodeJS.ReadStream, output: NodeJS.WriteStream, signal: AbortSignal): Asker {
  let lines: Interface | null = null;
  let isMuted = false;
  let hasEnded = false;
  /** The lines that answer questions. They are kept for the next ones, because several answers may be pasted at once. */
  let answers: ReturnType<typeof on> | null = null;
  const screen = new Writable({
    write(chunk, encoding, done) {
      if (!isMuted) output.write(chunk, encoding);
      done();
    },
  });
  // With it, long lines wrap as they are edited.
  Object.defineProperty(screen, 'columns', { get: () => output.columns });

  function open(): Interface {
    if (lines !== null) return lines;
    const opened = createInterface({ input, output: screen, terminal: true, historySize: 0 });
    // While a line is edited the terminal is raw and sends no signal by itself.
    opened.on('SIGINT', () => process.kill(process.pid, 'SIGINT'));
    opened.on('close', () => {
      hasEnded ||= lines === opened;
    });
    lines = opened;
    return opened;
  }

  /** What is typed from now on. */
  function linesUntil(end: AbortSignal) {
    const shown = open();
    // A closed interface sends no more events, not even that it is closed.
    if (hasEnded) throw new MirrorError('no_answer', NO_ANSWER);
    return on(shown, 'line', { signal: end, close: ['close'] });
  }

  return {
    isPerson: true,
    async ask({ text, otherwise, isHidden = false }) {
      answers ??= linesUntil(signal);
      const shown = open();
      shown.setPrompt(`${text}${otherwise === undefined ? '' : ` [${otherwise}]`}: `);
      // After the end of the input, lines that were typed before still answer.
      if (!hasEnded) shown.prompt();
      isMuted = isHidden;
      let isEchoed = false;
      try {
        const { value, done } = await answers.next();
        if (done) throw new MirrorError('no_answer', NO_ANSWER);
        isEchoed = !isHidden;
        return String(value[0]).trim();
      } finally {
        isMuted = false;
        // The terminal has not begun a new line by itself.
        if (!isEchoed) output.write('\n');
      }
    },
    async enter(until) {
      // What was typed before does not count.
      void answers?.return?.();
      answers = null;
      try {
        const { done } = await linesUntil(AbortSignal.any([signal, until])).next();
        if (!done) return;
      } catch {
        // An abort or a closed input is no Enter.
      }
      await new Promise<never>(() => undefined);
    },
    release() {
      const shown = lines;
      lines = null;
      answers = null;
      shown?.close();
    },
  };
}
