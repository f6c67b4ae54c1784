"""PostgreSQL: an answer, and a handful of pairs, in one round trip.

Revision: 0006, after 0005. Two functions do in the server what `store/answers.py` and `store/leases.py` do statement
by statement: the same locks in the same order, looking again after each. `steelyard_answer` writes only what is quite
ordinary – a pair that was handed out, a first answer with a new id, the right sides – and otherwise writes nothing and
gives nothing back; what is to be said about everything else is decided in Python, in one place for both databases.
`steelyard_lease` hands out what nobody has locked; waiting for the rest is decided in Python too.
"""

from __future__ import annotations

from alembic import op

from steelyard.store.chain import genesis
from steelyard.store.place import LOG_LOCK, lock_offset, schema_of

revision = "0006"
down_revision = "0005"

# store/chain.py defines these.
ENCODINGS = """
CREATE FUNCTION steelyard_encoded(value bigint) RETURNS bytea LANGUAGE sql IMMUTABLE AS
$$ SELECT CASE WHEN value IS NULL THEN 'n'::bytea ELSE 'i'::bytea || int8send(value) END $$;
CREATE FUNCTION steelyard_encoded(value double precision) RETURNS bytea LANGUAGE sql IMMUTABLE AS
$$ SELECT CASE WHEN value IS NULL THEN 'n'::bytea ELSE 'f'::bytea || float8send(value + 0.0) END $$;
CREATE FUNCTION steelyard_encoded(value text) RETURNS bytea LANGUAGE sql IMMUTABLE AS
$$ SELECT CASE WHEN value IS NULL THEN 'n'::bytea
   ELSE 't'::bytea || int4send(octet_length(convert_to(value, 'UTF8'))) || convert_to(value, 'UTF8') END $$;
"""

ANSWER = f"""
CREATE FUNCTION steelyard_answer(
    ids text[], pair_ids bigint[], people text[], answers_ text[], lefts text[], rights text[],
    shown double precision[], answered double precision[], notes text[], sources text[], now_ double precision
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    n integer := cardinality(ids);
    ordinary integer;
    last bigint;
    chain text;
    new record;
BEGIN
    PERFORM FROM pairs p WHERE p.id = ANY (pair_ids) ORDER BY p.id FOR NO KEY UPDATE;
    SELECT count(*) INTO ordinary
    FROM (SELECT DISTINCT ON (g.id) * FROM unnest(ids, pair_ids, people, lefts, rights) AS g (id, pair, who, l, r)) g
    JOIN pairs p ON p.id = g.pair
    JOIN images f ON f.row = p.first_row
    JOIN images s ON s.row = p.second_row
    JOIN pair_leases h ON h.pair = g.pair AND h.annotator = g.who
    WHERE (g.l, g.r) IN ((f.id, s.id), (s.id, f.id))
      AND NOT EXISTS (SELECT FROM comparisons c WHERE c.id = g.id)
      AND NOT EXISTS (SELECT FROM comparisons c WHERE c.pair = g.pair AND c.annotator = g.who);
    IF ordinary < n OR n > (SELECT count(DISTINCT (g.pair, g.who)) FROM unnest(pair_ids, people) AS g (pair, who)) THEN
        RETURN NULL;
    END IF;

    PERFORM pg_advisory_xact_lock({LOG_LOCK});
    SELECT c.seq, c.hash INTO last, chain FROM comparisons c ORDER BY c.seq DESC LIMIT 1;
    IF NOT FOUND THEN
        last := 0;
        chain := '{genesis("comparisons")}';
    END IF;
    FOR new IN
        SELECT g.*, CASE WHEN g.l = f.id THEN p.first_row ELSE p.second_row END AS left_row,
               CASE WHEN g.l = f.id THEN p.second_row ELSE p.first_row END AS right_row
        FROM unnest(ids, pair_ids, people, answers_, lefts, rights, shown, answered, notes, sources) WITH ORDINALITY
             AS g (id, pair, who, said, l, r, shown_at, answered_at, note, source, k)
        JOIN pairs p ON p.id = g.pair
        JOIN images f ON f.row = p.first_row
        ORDER BY g.k
    LOOP
        last := last + 1;
        chain := encode(sha256(convert_to(chain, 'UTF8')
            || steelyard_encoded(last) || steelyard_encoded(new.id) || steelyard_encoded(new.pair)
            || steelyard_encoded(new.who) || steelyard_encoded(new.said)
            || steelyard_encoded(new.left_row) || steelyard_encoded(new.right_row)
            || steelyard_encoded(new.l) || steelyard_encoded(new.r)
            || steelyard_encoded(new.shown_at) || steelyard_encoded(new.answered_at) || steelyard_encoded(now_)
            || 'n'::bytea || steelyard_encoded(new.note) || steelyard_encoded(new.source)), 'hex');
        INSERT INTO comparisons (seq, id, pair, annotator, answer, left_row, right_row, shown_at, answered_at,
                                 received_at, supersedes, note, source, hash)
        VALUES (last, new.id, new.pair, new.who, new.said, new.left_row, new.right_row, new.shown_at, new.answered_at,
                now_, NULL, new.note, new.source, chain);
    END LOOP;

    UPDATE pair_leases h SET expires = now_
    FROM unnest(pair_ids, people) AS g (pair, who)
    WHERE h.pair = g.pair AND h.annotator = g.who AND h.expires > now_;
    -- A pair that was closed stays closed: an answer never opens one.
    UPDATE pairs p SET answers = p.answers + g.more, open = p.open AND p.raters > p.answers + g.more
    FROM (SELECT pair, count(*)::integer AS more FROM unnest(pair_ids) AS u (pair) GROUP BY pair) g
    WHERE p.id = g.pair;
    RETURN last;
END $$;
"""

# The three conditions of store/leases.py: nobody's answer that counts, a running lease, and a free seat.
ANSWERED = """(p.answers > 0 AND EXISTS (
        SELECT FROM comparisons c WHERE c.pair = p.id AND c.annotator = who AND c.answer <> 'withdrawn'
        AND (SELECT l.seq FROM comparisons l WHERE l.supersedes = c.id) IS NULL))"""
HELD = f"""SELECT coalesce(array_agg(x.pair ORDER BY x.handed_at, x.pair), '{{}}') FROM (
        SELECT h.pair, h.handed_at FROM pair_leases h JOIN pairs p ON p.id = h.pair
        WHERE h.annotator = who AND h.expires > now_ AND p.open AND NOT {ANSWERED}
        ORDER BY h.handed_at, h.pair LIMIT n) x"""
AVAILABLE = f"""p.open AND p.answers + (
            SELECT count(*) FROM pair_leases h WHERE h.pair = p.id AND h.expires > now_ AND h.annotator <> who
        ) < p.raters AND NOT {ANSWERED}
        AND NOT EXISTS (SELECT FROM pair_leases h WHERE h.pair = p.id AND h.expires > now_ AND h.annotator = who)"""

LEASE = f"""
CREATE FUNCTION steelyard_lease(
    who text, n bigint, now_ double precision, seconds double precision, flipped boolean[]
) RETURNS TABLE (
    pair bigint, annotator text, "left" text, "right" text, left_row bigint, right_row bigint, round integer,
    strategy text, reason text, reserved boolean, repeat integer, expires double precision
) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    held bigint[];
    taken bigint[] := '{{}}';
    locked bigint[];
    still bigint[];
    last bigint := 0;
    more bigint;
BEGIN
    held := ({HELD});
    IF cardinality(held) > 0 THEN
        PERFORM FROM pairs p WHERE p.id = ANY (held) ORDER BY p.id FOR NO KEY UPDATE;
        held := ({HELD});
    END IF;
    more := n - cardinality(held);
    WHILE more > 0 LOOP
        locked := ARRAY(
            SELECT p.id FROM pairs p WHERE p.id > last AND {AVAILABLE}
            ORDER BY p.id LIMIT more FOR NO KEY UPDATE SKIP LOCKED);
        EXIT WHEN cardinality(locked) = 0;
        last := locked[cardinality(locked)];
        still := ARRAY(SELECT p.id FROM pairs p WHERE p.id = ANY (locked) AND {AVAILABLE} ORDER BY p.id);
        taken := taken || still;
        more := more - cardinality(still);
    END LOOP;

    UPDATE pair_leases h SET expires = now_ + seconds
    WHERE h.annotator = who AND h.pair = ANY (held) AND h.expires < now_ + seconds / 2;
    IF cardinality(taken) > 0 THEN
        INSERT INTO pair_leases AS h (pair, annotator, left_row, handed_at, expires)
        SELECT p.id, who, CASE WHEN flipped[t.k] THEN p.second_row ELSE p.first_row END, now_, now_ + seconds
        FROM unnest(taken) WITH ORDINALITY AS t (id, k) JOIN pairs p ON p.id = t.id ORDER BY t.k
        ON CONFLICT ON CONSTRAINT pk_pair_leases DO UPDATE SET expires = excluded.expires;
    END IF;
    RETURN QUERY
        SELECT h.pair, h.annotator, l.id, r.id, l.row, r.row, p.round, p.strategy, p.reason, p.reserved, p.repeat,
               h.expires
        FROM unnest(held || taken) WITH ORDINALITY AS o (id, k)
        JOIN pairs p ON p.id = o.id
        JOIN pair_leases h ON h.pair = p.id AND h.annotator = who
        JOIN images l ON l.row = h.left_row
        JOIN images r ON r.row = p.first_row + p.second_row - h.left_row
        ORDER BY o.k;
END $$;
"""


def upgrade() -> None:
    """Forwards; there is no way back but the backup copy."""
    if op.get_bind().dialect.name == "sqlite":
        return  # it lives in our process: there is no way to save
    # The lock of this study: others in the same database have theirs.
    lock = LOG_LOCK ^ lock_offset(schema_of(op.get_bind().engine.url))
    for statement in (ENCODINGS, ANSWER.replace(str(LOG_LOCK), str(lock)), LEASE):
        op.get_bind().exec_driver_sql(statement)
