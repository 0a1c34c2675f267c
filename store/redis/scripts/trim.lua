-- trim(term, holder, entry): forgets what the holder has read of in, up to an entry.
--- fence
redis.call('XTRIM', IN, 'MINID', '~', ARGV[4])
return {'OK'}
