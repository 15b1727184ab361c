"""How fast mail is parsed and a synthetic corpus made, per core.

    .venv/bin/python benchmarks/corpus_speed.py

CPU seconds, not wall-clock: other load on the machine counts less. Targets: 20 MB/s of mail, 50 MB/s
synthetic.
The archive is made for the purpose: Pareto lengths, 2 kB of headers each, one message in twenty with
several parts, one in ten quoted-printable.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections import Counter
from pathlib import Path

from pgstrata.fulltext.corpus.build import archive_rows
from pgstrata.fulltext.corpus.synthetic import rows

HEADERS = b"""\
Received: from mail.example.org (mail.example.org [192.0.2.183])
\tby lists.example.org (Postfix) with ESMTP id 8CDDA632BB5
\tfor <hackers-example.org@lists.example.org>; Thu, 11 Feb 2010 13:27:25 -0400 (AST)
Received: from lists.example.org ([192.0.2.86])
\tby mail.example.org (mx1.example.org [192.0.2.183]) (filter, port 10024)
\twith ESMTP id 03573-05 for <hackers-example.org@lists.example.org>;
\tThu, 11 Feb 2010 17:27:14 +0000 (UTC)
DKIM-Signature: v=1; a=rsa-sha256; c=relaxed/relaxed; d=example.com; s=gamma;
        h=domainkey-signature:mime-version:received:in-reply-to:references
         :date:message-id:subject:from:to:cc:content-type;
        bh=47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=;
MIME-Version: 1.0
In-Reply-To: <4B743FE9.%(n)d@example.net>
References: <4B743FE9.%(n)d@example.net> <9837222c1002110929q3d7b51eeh@example.com>
From: Somebody Else <somebody@example.net>
Date: Thu, 11 Feb 2010 18:27:14 +0100
Message-ID: <9837222c.%(n)d@example.com>
Subject: Re: [HACKERS] A subject of some length about replication %(n)d
To: Another Person <another.person@example.com>
Cc: Hackers <hackers@example.org>
X-Virus-Scanned: filter 1.0.1
X-Mailing-List: hackers
Precedence: bulk
Sender: hackers-owner@example.org
"""
LINE = (
    b"On that day somebody wrote:\n> this is some quoted text of usual length in mail\nand an answer to it\n"
)


def message(dice: random.Random, n: int) -> bytes:
    size = int(min(20_000, 900 * (1 - dice.random()) ** (-1 / 1.3)))
    body = (LINE * (size // len(LINE) + 1))[:size] + b"\n"
    head = HEADERS % {b"n": n}
    if n % 20 == 0:
        head += b"Content-Type: multipart/mixed; boundary=bound\n"
        body = (
            b"--bound\nContent-Type: text/plain\n\n"
            + body
            + b"\n--bound\nContent-Type: image/png\n\nx\n--bound--\n"
        )
    elif n % 10 == 1:
        head += b"Content-Type: text/plain; charset=ISO-8859-1\nContent-Transfer-Encoding: quoted-printable\n"
    else:
        head += b"Content-Type: text/plain; charset=ISO-8859-1\nContent-Transfer-Encoding: 8bit\n"
    return b"From hackers-owner@example.org Thu Feb 11 18:27:14 2010\n" + head + b"\n" + body + b"\n"


def main() -> None:
    dice = random.Random(1)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "speed.mbox"
        with file.open("wb") as out:
            for n in range(6_000):
                out.write(message(dice, n))
        counts: Counter[str] = Counter()
        begun = time.process_time()
        for _ in archive_rows([file], counts):
            pass
        seconds = time.process_time() - begun
        size = file.stat().st_size
    print(
        f"mail: {size / 1e6 / seconds:.1f} MB/s per core, {seconds / counts['messages'] * 1e6:.0f} µs per "
        f"message of {size / counts['messages']:.0f} bytes"
    )
    begun = time.process_time()
    size = sum(map(len, rows(30_000, 1)))
    seconds = time.process_time() - begun
    print(f"synthetic: {size / 1e6 / seconds:.1f} MB/s per core, vocabulary included, {size / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
