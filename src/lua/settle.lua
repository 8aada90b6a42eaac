-- Gives back slots that will not be used, while they are the last ones handed out: then no later slot depends on them.
-- KEYS 1 bucket (hash tat,eid,pause); ARGV 1 first of these slots 2 the tat that the last of them made
-- reply 1 given back, 0 too late
if redis.call('HGET', KEYS[1], 'tat') ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], 'tat', ARGV[1])
return 1
