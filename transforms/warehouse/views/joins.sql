-- The catalog's own macros and views for the joins that everybody needs: times to blocks, accounts
-- to assets and markets, whole numbers to amounts. Each paragraph is run where the tables have the
-- columns that it needs.

-- A cast would take text without an offset for the session's time zone.
create macro strata.moment(value) as (
  case when regexp_matches(value::varchar, ':.*[+A-Za-z-]')
  then (value::varchar)::timestamptz
  else (value::varchar)::timestamp at time zone 'UTC' end
);
comment on macro strata.moment is
  'A time; text without an offset or zone is UTC, whatever the time zone of the session.';

-- A quotient of decimals would be a float. Of a product the scales add up.
create macro strata.amount(value, decimals) as (
  case when decimals > 18 and value is not null
  then error('strata.amount: more than 18 decimals')
  else value * ('1e' || (-decimals))::decimal(38,18) end
);
comment on macro strata.amount is
  'A whole number of smallest units as an exact decimal: value / 10^decimals, 18 places.';

-- needs blocks.height, blocks.vega_time
create macro strata.block_at(moment) as (
  (select max(height) from main.blocks where vega_time <= strata.moment(moment))
);
comment on macro strata.block_at is
  'Height of the last block at or before a time; text without an offset or zone is UTC.';

-- needs blocks.height, blocks.vega_time
create macro strata.time_of(block) as (
  (select max(vega_time) from main.blocks where height = block)
);
comment on macro strata.time_of is 'Time of a block.';

-- needs assets.id, assets.symbol, assets.name, assets.decimals, assets.vega_time
create view strata.assets as
select
  id,
  arg_max(symbol, vega_time) as symbol,
  arg_max(name, vega_time) as name,
  arg_max(decimals, vega_time) as decimals
from main.assets group by id;
comment on view strata.assets is 'Assets, one row each, as of their latest change.';

-- needs markets_current.id, markets_current.tradable_instrument, markets_current.decimal_places
-- needs markets_current.position_decimal_places, markets_current.state
-- needs markets_current.trading_mode
-- needs assets.id, assets.symbol, assets.name, assets.decimals, assets.vega_time
create view strata.markets as
select
  market.id,
  tradable_instrument ->> '$.instrument.code' as code,
  tradable_instrument ->> '$.instrument.name' as name,
  state, trading_mode, decimal_places, position_decimal_places,
  asset.id as asset_id, asset.symbol as asset, asset.decimals as asset_decimals
from main.markets_current as market
left join strata.assets as asset on asset.id = coalesce(
  tradable_instrument ->> '$.instrument.future.settlementAsset',
  tradable_instrument ->> '$.instrument.perpetual.settlementAsset',
  tradable_instrument ->> '$.instrument.spot.quoteAsset'
);
comment on view strata.markets is
  'Markets, one row each, as of their latest change, with their settlement assets.';

-- needs accounts.id, accounts.party_id, accounts.asset_id, accounts.market_id, accounts.type
-- needs markets_current.id, markets_current.tradable_instrument, markets_current.decimal_places
-- needs markets_current.position_decimal_places, markets_current.state
-- needs markets_current.trading_mode
-- needs assets.id, assets.symbol, assets.name, assets.decimals, assets.vega_time
create view strata.accounts as
select
  account.id, party_id, account.asset_id, asset.symbol as asset, asset.decimals,
  nullif(market_id, '') as market_id, market.code as market, account.type, account.type_name
from main.accounts as account
left join strata.assets as asset on asset.id = account.asset_id
left join strata.markets as market on market.id = account.market_id;
comment on view strata.accounts is
  'Accounts with the names of their assets, markets and types; market is NULL without one.';
