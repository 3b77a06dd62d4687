"""What every engine is asked, as SQL where it speaks SQL.

Literals beyond 64 bits and of 16 places are casts from text: several engines read a plain one as a
floating-point number. Times are texts in UTC.
"""

PRICE = 10**20
"""Orders above it have prices beyond 64 bits."""
GREATEST_PRICE = "3000000000000000000000000000998"
FEE = "500000.0000000000000001"
BEGIN, END = "2023-01-01 00:03:20", "2023-01-01 00:10:00.001998"
INSTANT = "2023-01-01 00:05:00.001999"
"""The last order of the first segment: its least digits are lost in milliseconds."""
FAR = "2200-01-01 00:00:00"
ORDER = f"{301 + 5 * 1_000_003:064x}"
"""An order of the second segment."""

MANIFESTS = "manifests"
PAGE = "sizes of dear orders by market"
"""What the lines of the manual answer."""

_PRICE = f"cast('{PRICE}' as decimal(38,0))"

QUESTIONS = {
    "count": "select count(*) as n from orders",
    "sums by market": "select market_id, count(*) as n, sum(price) as prices, sum(size) as sizes "
    "from orders group by market_id order by market_id",
    "least and greatest": "select min(price) as p, max(price) as q, min(vega_time) as t, "
    "max(vega_time) as u, min(id) as i, max(id) as j from orders",
    "sum of 16 places": "select sum(fee) as fees from liquidity_provisions",
    "above a decimal": "select count(*) as n, sum(price) as prices from orders "
    f"where price > {_PRICE}",
    PAGE: "select market_id, sum(size) as sizes from orders "
    f"where price > {_PRICE} group by market_id order by market_id",
    "equal to a decimal": "select _segment, _row from orders "
    f"where price = cast('{GREATEST_PRICE}' as decimal(38,0)) order by _segment, _row",
    "above a decimal of 16 places": "select count(*) as n from liquidity_provisions "
    f"where fee > cast('{FEE}' as decimal(38,16))",
    "below zero": "select count(*) as n, min(account_from_balance) as b from ledger "
    "where account_from_balance < 0 and _segment = 301",
    "between times": "select count(*) as n, sum(size) as sizes from orders "
    f"where vega_time >= '{BEGIN}' and vega_time < '{END}'",
    "at an instant": f"select _segment, _row from orders where vega_time = '{INSTANT}'",
    "far times": f"select count(*) as n from orders where expires_at > '{FAR}'",
    "no time": "select count(*) as n from orders where expires_at is null",
    "one id": f"select _segment, _row, price from orders where id = '{ORDER}'",
    "blocks": "select count(*) as n, max(hash) as h from blocks "
    "where height >= 250 and height <= 650",
    "one segment": "select count(*) as n, sum(price) as prices from orders where _segment = 301",
    "NULL beside the empty text": "select count(*) as n, count(reference) as r from orders "
    "where reference is null or reference <> ''",
    "a column that older rows lack": "select count(*) as n from orders "
    "where reserved_remaining is null",
    "a value that older rows lack": "select count(*) as n from orders where reserved_remaining = 0",
    "join": "select o.market_id as market, count(*) as n, sum(t.price) as prices "
    "from trades t join orders o on t.buy_order = o.id and t._segment = o._segment "
    "where t.price > o.price group by o.market_id order by o.market_id",
    MANIFESTS: "select m.first_block, m.last_block, m.schema_version, m.receipts "
    "from manifests m order by m.first_block",
    "texts that no type holds": "select _segment, _row, _raw['price'] as price from orders "
    "where _raw['price'] is not null order by _segment, _row",
}

LIMITS = {
    "a float in a filter": "select count(*) as n from orders where price > 1e20",
    "a long number in a filter": f"select count(*) as n from orders where price > {PRICE}",
    "a time without zone": "select count(*) as n from orders "
    "where vega_time >= timestamp '2023-01-01 00:05:00'",
    "a sum beyond 38 digits": "select sum(account_from_balance) as s from ledger "
    "where account_from_balance > 0",
    "a product of decimals": "select sum(commitment_amount * fee) as s from liquidity_provisions "
    "where commitment_amount < cast('10000000000' as decimal(38,0))",
}
"""What not every engine can: some refuse it, some answer something else."""
