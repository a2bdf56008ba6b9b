import { expect, it } from 'vitest';
import { accessPrint } from '../../src/compliance/credentials.ts';
import { type ComplianceSettings, loadConfig } from '../../src/platform/config.ts';

const { compliance } = loadConfig({
  COMPLIANCE_BASE_URL: 'https://api.example/v1',
  COMPLIANCE_API_KEY: 'a-key-of-the-tests',
  WEBHOOK_SECRETS: 'a-secret-that-signs-nothing',
  OPS_TOKENS: 'tester:operate:access-print-operator-0123-of-thirt',
});

it('the print of one key is another one once the database has begun another life, and only then', () => {
  let epoch = 'one';
  const print = accessPrint(compliance!, () => epoch);
  const before = print();
  expect(print()).toBe(before);
  epoch = 'two';
  expect(print()).not.toBe(before);
  epoch = 'one';
  expect(print()).toBe(before);
});

it('the print is another one for another address, method, client, scope or secret, also if only the file of a key has changed', () => {
  const client = {
    auth: 'oauth',
    authUrl: new URL('https://auth.example/'),
    clientId: 'us',
    clientSecret: () => 'ours',
  } as const;
  const others: Partial<ComplianceSettings>[] = [
    { baseUrl: new URL('https://other.example/v1') },
    { auth: 'service_account' },
    { authUrl: new URL('https://other.example/') },
    { clientId: 'them' },
    { clientSecret: () => 'theirs' },
    { scopes: ['read', 'audit'] },
    { auth: 'api_key' },
  ];
  const printOf = (changes: Partial<ComplianceSettings>) =>
    accessPrint({ ...compliance!, ...client, ...changes }, () => 'one')();
  expect(new Set([{}, {}, ...others].map(printOf)).size).toBe(others.length + 1);

  let key = 'one';
  const print = accessPrint({ ...compliance!, apiKey: () => key }, () => 'one');
  const before = print();
  key = 'two';
  expect(print()).not.toBe(before);
});
