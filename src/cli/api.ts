import { readFileSync } from 'node:fs';
import { Command } from 'commander';
import { routeOf } from '../compliance/client.ts';
import { UnaddressableError, UpstreamError } from '../compliance/errors.ts';
import { loadConfig } from '../platform/config.ts';
import { describeError, UsageError } from '../platform/errors.ts';
import type { Store } from '../store/store.ts';
import { type Cli, writeJson } from './cli.ts';
import { commandClient, complianceSettings } from './client.ts';
import { withStore } from './database.ts';
import { printableLines } from './text.ts';

type Method = 'GET' | 'POST';

/** The operations of the specification, section 4. Nothing else is sent. */
const OPERATIONS: readonly (readonly [Method, route: string])[] = [
  ['GET', '/policies'],
  ['POST', '/policies'],
  ['GET', '/risk-assessments/{id}'],
  ['POST', '/risk-assessments'],
  ['GET', '/vendors'],
  ['GET', '/vendors/{id}'],
  ['POST', '/webhooks'],
];

export function apiCommand(cli: Cli): Command {
  return new Command('api')
    .description('one request to the compliance service, with our credentials')
    .argument('<method>', 'GET or POST')
    .argument('<path>', 'below COMPLIANCE_BASE_URL, percent-encoded, such as "/vendors?page=2"')
    .option('--body <file>', 'the JSON to send; - reads standard input')
    .addHelpText('after', `\nThe operations:\n${OPERATIONS.map(([m, r]) => `  ${m} ${r}`).join('\n')}`)
    .action((method: string, path: string, options: { body?: string }) => api(cli, method, path, options));
}

async function api(cli: Cli, given: string, path: string, options: { body?: string }): Promise<void> {
  const method = operationOf(given, path);
  const body = bodyFor(method, options.body);
  const config = loadConfig(cli.env);
  const call = {
    method,
    path,
    lane: 'person' as const,
    signal: new AbortController().signal,
    ...(body === undefined ? {} : { body }),
  };
  try {
    const needs = method === 'POST' ? 'write' : 'read';
    const send = async (store: Store | null) =>
      await commandClient(config, store, { actor: 'api', needs }).request(call);
    // With an API key no database is needed, so none is made.
    const isKey = complianceSettings(config).auth === 'api_key';
    const { value } = await (isKey ? send(null) : withStore(cli, 'make', send));
    writeJson(cli.out, value);
  } catch (error) {
    if (error instanceof UnaddressableError) {
      throw new UsageError(error.message, 'write the path percent-encoded; "." and ".." cannot be asked for');
    }
    // The service's own words. The error follows them.
    if (error instanceof UpstreamError && error.excerpt) {
      cli.err.write(`${printableLines(error.excerpt)}\n`);
    }
    throw error;
  }
  if (method === 'POST' && routeOf(path) === '/webhooks') {
    cli.err.write(
      'Note: if the answer holds a signing secret, it is stored nowhere but there; "webhook register" keeps it encrypted.\n',
    );
  }
}

/** The method of the operation. @throws UsageError that lists all operations if this is none of them. */
export function operationOf(given: string, path: string): Method {
  const method = given.toUpperCase();
  const route = routeOf(path);
  const found = OPERATIONS.find((operation) => operation[0] === method && operation[1] === route);
  if (found !== undefined) return found[0];
  const list = OPERATIONS.map(([each, where]) => `${each} ${where}`).join(', ');
  throw new UsageError(
    `${method} ${path} is none of the operations of the compliance service`,
    `they are ${list}`,
  );
}

/** The text of the file, unchanged. It must be JSON. */
function bodyFor(method: Method, file: string | undefined): string | undefined {
  if (method === 'GET') {
    if (file === undefined) return undefined;
    throw new UsageError('a GET has no body', 'leave out --body');
  }
  if (file === undefined) throw new UsageError('a POST needs --body FILE', '- reads standard input');
  try {
    // Without a byte order mark, which some editors write and JSON does not allow. Standard input is descriptor 0.
    const text = new TextDecoder('utf-8', { fatal: true }).decode(readFileSync(file === '-' ? 0 : file));
    JSON.parse(text);
    return text;
  } catch (error) {
    throw new UsageError(`--body: ${file} is no JSON that can be read: ${describeError(error)}`);
  }
}
