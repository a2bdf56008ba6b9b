import { PassThrough } from 'node:stream';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { personAt } from '../../src/cli/setup/asker.ts';

function person() {
  const input = new PassThrough();
  const stop = new AbortController();
  const output = new PassThrough().resume();
  const asker = personAt(
    input as unknown as NodeJS.ReadStream,
    output as unknown as NodeJS.WriteStream,
    stop.signal,
  );
  return { input, stop, asker, ask: () => asker.ask({ text: 'Name', flag: '--name' }) };
}

it('takes answers that are pasted together one by one, and says when the input has ended', async () => {
  const { input, ask } = person();
  const first = ask();
  input.write('one\rtwo\r\x04');
  expect(await first).toBe('one');
  expect(await ask()).toBe('two');
  await expect(ask()).rejects.toMatchObject({ code: 'no_answer' });
  await expect(ask()).rejects.toMatchObject({ code: 'no_answer' });
});

it('ends a question when it is stopped', async () => {
  const { stop, ask } = person();
  const asked = ask();
  stop.abort();
  await expect(asked).rejects.toThrow();
});

it('waits for an Enter that comes after, and asks again when the wait is over', async () => {
  const { input, asker, ask } = person();
  const first = ask();
  input.write('one\rtoo early\r');
  await first;
  let isPressed = false;
  const entered = asker.enter(new AbortController().signal).then(() => {
    isPressed = true;
  });
  await nextTurn();
  expect(isPressed).toBe(false);
  input.write('\r');
  await entered;

  const over = new AbortController();
  void asker.enter(over.signal).then(() => expect.unreachable());
  over.abort();
  const second = ask();
  input.write('two\r');
  expect(await second).toBe('two');
});
