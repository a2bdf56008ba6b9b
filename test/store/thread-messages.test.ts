import { describe, expect, it } from 'vitest';
import { MirrorError, NotMigrated, StoreUnavailable, UsageError } from '../../src/platform/errors.ts';
import { errorFromMessage, errorToMessage } from '../../src/store/sqlite/thread.ts';

const across = (error: unknown) => errorFromMessage(structuredClone(errorToMessage(error)));

describe('an error that crosses between threads', () => {
  it.each([
    ['of a disk that fails', new StoreUnavailable('no trust', { fatal: true, remedy: 'check the disk' })],
    [
      'of a full disk',
      new StoreUnavailable('full', { remedy: 'free space', cause: new Error('SQLITE_FULL') }),
    ],
    ['of a usage', new UsageError('no such file', 'name another')],
    ['of a schema', new NotMigrated('an earlier one', 'migrate')],
    [
      'with a code of its own',
      new MirrorError('lease_lost', 'lost', { retryable: true, cause: new Error('why') }),
    ],
    ['of a bug', new TypeError('undefined is not a function')],
  ])('%s decides as it would have', (_what, error) => {
    const got = across(error);
    const { code, dirty, retryable, fatal } = error as unknown as Record<string, unknown>;
    expect(got).toMatchObject({ name: error.name, message: error.message, stack: error.stack });
    expect({ ...got }).toMatchObject(
      JSON.parse(JSON.stringify({ code, dirty, retryable, fatal })) as Record<string, unknown>,
    );
    for (const kind of [MirrorError, UsageError, NotMigrated, StoreUnavailable]) {
      expect(got instanceof kind, kind.name).toBe(error instanceof kind);
    }
    expect((got.cause as Error | undefined)?.message).toBe((error.cause as Error | undefined)?.message);
  });

  it('keeps the code of the driver’s own', () => {
    const error = Object.assign(new Error('UNIQUE constraint failed'), { code: 'SQLITE_CONSTRAINT_UNIQUE' });
    expect(across(error)).toMatchObject({ message: error.message, code: error.code });
  });

  it('is one, whatever was thrown', () => {
    expect(across('only words')).toMatchObject({ message: 'only words' });
    expect(across(null)).toBeInstanceOf(Error);
  });
});
