/** Buys tickets: `POST /access/ticket` with a password, or with a ticket that is still good. */
import { PbsfsError } from '../../errors.ts';
import { answerError } from './answer-error.ts';
import { decodeTicket } from './answers.ts';
import { requireFullTicket, type Ticket } from './credentials.ts';
import type { HttpAnswer, HttpClient } from './http-client.ts';
import { parseData } from './pbs-api.ts';

export const cookieName = 'PBSAuthCookie';
/** Sent by servers that keep the ticket out of the body; they want it back under this name. */
const hostCookieName = '__Host-PBSAuthCookie';
/** Tickets have some hundred bytes. */
const maxAnswerLength = 1024 * 1024;

/** @throws PbsfsError `access-denied`, `unreachable`, `timeout`, `corrupt` */
export async function login(http: HttpClient, authId: string, password: string): Promise<Ticket> {
  const path = '/access/ticket';
  const answer = await http.send({
    method: 'POST',
    path: `/api2/json${path}`,
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ username: authId, password }),
    limit: maxAnswerLength,
  });
  if (answer.status === 401 || answer.status === 403) throw refused(authId);
  if (answer.status !== 200) throw answerError(answer.status, answer.body, path);
  const ticket = ticketOf(answer, path);
  requireFullTicket(ticket.ticket, authId);
  return ticket;
}

function ticketOf(answer: HttpAnswer, path: string): Ticket {
  const issuedAt = Date.now();
  const fromCookie = hostCookie(answer.headers['set-cookie']);
  if (fromCookie !== undefined) return { ticket: fromCookie, cookieName: hostCookieName, issuedAt };
  const { ticket } = decodeTicket(parseData(answer.body, path));
  if (ticket === undefined || ticket === '') {
    throw new PbsfsError('corrupt', `${path}: the server's answer has no ticket`);
  }
  return { ticket, cookieName, issuedAt };
}

function hostCookie(header: string | string[] | undefined): string | undefined {
  const prefix = `${hostCookieName}=`;
  const found = [header ?? []].flat().find((line) => line.startsWith(prefix));
  const value = found?.slice(prefix.length).split(';', 1)[0];
  if (value === undefined || value === '') return undefined;
  try {
    return decodeURIComponent(value);
  } catch {
    return value;
  }
}

function refused(authId: string): PbsfsError {
  return new PbsfsError('access-denied', `the server refuses the login of ${authId}`, {
    hint: 'check user, realm and password; an API token is written user@realm!token',
  });
}
