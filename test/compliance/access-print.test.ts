import { expect, it } from 'vitest';
import { accessPrint } from '../../src/compliance/credentials.ts';
import { loadConfig } from '../../src/platform/config.ts';

it('the print of one key is another one once the database has begun another life, and only then', () => {
  const { compliance } = loadConfig({
    COMPLIANCE_BASE_URL: 'https://api.example/v1',
    COMPLIANCE_API_KEY: 'a-key-of-the-tests',
    WEBHOOK_SECRETS: 'a-secret-that-signs-nothing',
    OPS_TOKENS: 'tester:operate:access-print-operator-0123',
  });
  let epoch = 'one';
  const print = accessPrint(compliance!, () => epoch);
  const before = print();
  expect(print()).toBe(before);
  epoch = 'two';
  expect(print()).not.toBe(before);
  epoch = 'one';
  expect(print()).toBe(before);
});
