import { expect, it } from 'vitest';
import { bodyOf } from '../../src/notify/message.ts';
import { problem } from './problem.ts';

const operators = 'https://mirror.example';
const verdicts = { policy: 'in_sync', vendor: 'action_required' };
const slack = { url: new URL('https://hooks.slack.com/services/T0/B0/x'), operators };
const text = (...args: Parameters<typeof bodyOf>) => (bodyOf(...args) as { text: string }).text;

it('is the problem as the API has it, the verdict of each kind and where to look', () => {
  const one = problem(12);
  const to = { url: new URL('https://chat.example/hook'), operators };
  expect(bodyOf(to, { what: 'opened', problem: one, verdicts })).toEqual({
    what: 'opened',
    problem: one,
    verdicts,
    url: 'https://mirror.example/#problem-12',
  });
  expect(bodyOf(to, { what: 'test', problem: null, verdicts })).toMatchObject({
    what: 'test',
    url: operators,
  });
});

it('is for Slack a text in which nothing of the service reads as a link or a mention', () => {
  const one = problem(12, { record_id: '<!channel>', error: 'see <http://x|y> & z' });
  expect(text(slack, { what: 'opened', problem: one, verdicts })).toBe(
    [
      '*compliance-mirror: action required*',
      'Paused.',
      'About: &lt;!channel&gt;',
      'see &lt;http://x|y&gt; &amp; z',
      'What to do: Resume.',
      'policy: in sync, vendor: action required',
      '<https://mirror.example/#problem-12|Status page>',
    ].join('\n'),
  );
  expect(text(slack, { what: 'resolved', problem: problem(12), verdicts })).toBe(
    [
      '*compliance-mirror: resolved*',
      'Paused.',
      'About: vendor',
      'policy: in sync, vendor: action required',
      '<https://mirror.example/#problem-12|Status page>',
    ].join('\n'),
  );
  expect(text(slack, { what: 'test', problem: null, verdicts: {} })).toBe(
    '*compliance-mirror: test*\nThis is a test.\n<https://mirror.example|Status page>',
  );
});

it.each([
  ['hooks.slack.com', true],
  ['hooks.slack-gov.com', true],
  ['slack.com.evil.example', false],
  ['myslack.com', false],
])('of %s is Slack’s form: %s', (host, isSlack) => {
  const to = { url: new URL(`https://${host}/x`), operators };
  expect('text' in bodyOf(to, { what: 'opened', problem: problem(1), verdicts })).toBe(isSlack);
});
