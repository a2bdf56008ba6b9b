import type { Verdict } from './decide.ts';

export type NotifyFormat = 'json' | 'slack';

interface About {
  version: string;
  /** Address of the status page. */
  operators: string;
  /** The verdict told before this one. */
  previous: string | null;
  /** Wall-clock milliseconds. */
  at: number;
}

/** What is sent of a verdict, as JSON. */
export function messageOf(format: NotifyFormat, about: About, verdict: Verdict): object {
  const { version, operators, previous, at } = about;
  if (format === 'slack') return { text: slackText(verdict, operators) };
  const { verdict: name, reason, sentence, remedy, since } = verdict;
  return {
    ...{ service: 'compliance-mirror', version, operators },
    ...{ verdict: name, reason, sentence, remedy, since },
    ...{ previous, at: new Date(at).toISOString() },
  };
}

/** In the markup of Slack's incoming webhooks, which Mattermost and Rocket.Chat take too. */
function slackText({ verdict, sentence, remedy }: Verdict, operators: string): string {
  const name = verdict.replaceAll('_', ' ');
  const lines = [
    `*compliance-mirror: ${name}*`,
    escaped(sentence),
    ...(remedy === null ? [] : [`What to do: ${escaped(remedy)}`]),
    `<${operators}|Status page>`,
  ];
  return lines.join('\n');
}

/** What Slack would take for a link, a mention or an entity. */
function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}
