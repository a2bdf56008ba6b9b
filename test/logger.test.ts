import fc from 'fast-check';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { createLogger, type LoggerOptions, stage } from '../src/platform/logger.ts';
import { anyText } from './support/texts.ts';

function collect(options: Partial<LoggerOptions> = {}) {
  const lines: string[] = [];
  const logger = createLogger({
    level: 'info',
    destination: { write: (line) => void lines.push(line) },
    ...options,
  });
  const last = () => JSON.parse(lines.at(-1) ?? '{}') as Record<string, unknown>;
  return { logger, lines, last };
}

describe('a log line', () => {
  it('is one line of JSON with its level as a word, an ISO instant and its stage', () => {
    const { logger, lines, last } = collect();
    stage(logger, 'receive').info({ event_id: 'evt_1', duration_ms: 1.5, seq: 7, kind: null }, 'delivery');
    expect(lines).toHaveLength(1);
    expect(lines[0]).toMatch(/^\{.*\}\n$/);
    const { time, ...rest } = last();
    expect(new Date(time as string).toISOString()).toBe(time);
    expect(rest).toEqual({
      level: 'info',
      stage: 'receive',
      event_id: 'evt_1',
      duration_ms: 1.5,
      seq: 7,
      kind: null,
      msg: 'delivery',
    });
  });

  it('drops every field that is not allowed, at any depth and in children', () => {
    const { logger, last } = collect();
    const child = logger.child({ stage: 'x', authorization: 'a', nested: { token: 'b' } });
    child.info(
      { body: '{}', password: 'c', Reason: 'd', reason: { secret: 'e' }, kind: ['f'], outcome: 'done' },
      'm',
    );
    const { time: _time, ...rest } = last();
    expect(rest).toEqual({ level: 'info', stage: 'x', outcome: 'done', msg: 'm' });
  });

  it('cuts long values', () => {
    const { logger, last } = collect();
    logger.info({ reason: 'x'.repeat(5000) });
    expect((last()['reason'] as string).length).toBeLessThan(1100);
  });

  it('describes an error by its message, and shows its stack at debug only', () => {
    const error = Object.assign(new Error('it broke'), { config: { headers: { authorization: 'x' } } });
    for (const level of ['info', 'debug', 'trace']) {
      const { logger, last, lines } = collect({ level });
      logger.error({ error }, 'm');
      expect(last()).toMatchObject({ error: 'it broke', msg: 'm' });
      expect(last()['stack']).toEqual(level === 'info' ? undefined : error.stack);
      logger.error(error);
      expect(last()).toMatchObject({ error: 'it broke' });
      expect(lines.join()).not.toContain('authorization');
      logger.error({ err: error });
      expect(last()).toMatchObject({ error: 'it broke' });
    }
  });
});

describe('a secret', () => {
  it('is blotted out of messages, values and errors', () => {
    const secret = 'quote " and \\ and ü 1234';
    const { logger, lines } = collect({ level: 'debug', secrets: () => [secret, 'another-secret-here'] });
    logger.info(`the message says ${secret}`);
    logger.info({ reason: `x${secret}x`, url: `https://x/?k=${encodeURIComponent(secret)}` });
    logger.error({ error: new Error(`refused another-secret-here and ${secret}`) });
    expect(lines).toHaveLength(3);
    for (const line of lines) {
      expect(line).toContain('[redacted]');
      expect(line).not.toMatch(/1234|another-secret/);
      expect(() => JSON.parse(line) as unknown).not.toThrow();
    }
  });

  it('that is a prefix of another leaves nothing of the longer one behind', () => {
    const { logger, lines } = collect({ secrets: () => ['abcdefghij', 'abcdefghijklmnop'] });
    logger.info('abcdefghijklmnop');
    expect(lines[0]).not.toContain('klmnop');
  });

  it('is blotted out behind Bearer, whether we know it or not', () => {
    const { logger, last } = collect();
    for (const scheme of ['bearer', 'Bearer']) {
      logger.info({ error: new Error(`sent Authorization: ${scheme} abc.DEF-123_~+/=`) });
      expect(last()['error']).toBe(`sent Authorization: ${scheme} [redacted]`);
    }
  });

  it('that came in place of another is blotted out, too', () => {
    vi.useFakeTimers({ toFake: ['performance'] });
    onTestFinished(() => void vi.useRealTimers());
    let secret = 'the-secret-of-before';
    const { logger, lines } = collect({ secrets: () => [secret] });
    logger.info(secret);
    secret = 'the-secret-of-today';
    vi.advanceTimersByTime(1_000);
    logger.info(secret);
    expect(lines.join()).not.toContain('the-secret');
  });

  it('never survives, whatever it is made of and wherever it stands', () => {
    const secrets = anyText({ minLength: 16 });
    fc.assert(
      fc.property(secrets, fc.string(), (secret, around) => {
        const { logger, last } = collect({ secrets: () => [secret] });
        logger.info({ reason: `${around}${secret}${around}` });
        expect(JSON.stringify(last())).not.toContain(JSON.stringify(secret).slice(1, -1));
      }),
    );
  });
});
