/**
 * Anyone can write the text of events and records. On a terminal, control characters could move the cursor, rename
 * the window or hide what follows, and marks of writing direction could reorder a line, so they are shown as escapes.
 * The joiners U+200C and U+200D stay: names in several scripts are spelt with them.
 */
const UNPRINTABLE =
  /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|\p{Surrogate}/gu;

export function printable(text: string): string {
  return text.replace(UNPRINTABLE, (each) => `\\u${each.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

/** The same for a text of several lines. */
export function printableLines(text: string): string {
  return text.split('\n').map(printable).join('\n');
}

/** For lines of CSV, which end with CR LF, and of JSON. */
export const linesForTerminal = (text: string): string => printableLines(text.replaceAll('\r\n', '\n'));

/** JSON for people and scripts: still valid JSON, and without what `printable` escapes. */
export function printableJson(value: unknown): string {
  return printableLines(JSON.stringify(value, null, 2));
}
