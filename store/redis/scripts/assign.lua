local id = ARGV[4]
-- assign(term, holder, id, again, job, spec, "chunk attempt"...): gives at most 256 chunks, none
-- of them twice, to a worker. What it has is left as it is, what it has done is told again;
-- again: the command was obeyed before, what is not there has its fate.
-- -> OK, the refs for which there was no room
--- fence
local again, job, spec = ARGV[5] == '1', ARGV[6], ARGV[7]
local w = redis.call('HMGET', WORKER, 'here', 'session', 'gateway')
if not w[2] then return {'GONE'} end
local refs = {}
for i = 8, #ARGV do refs[i - 7] = job .. ' ' .. ARGV[i] end
local is, done = redis.call('HMGET', HAS, unpack(refs)), redis.call('HMGET', RESULTS, unpack(refs))
local room = MAXREFS - redis.call('HLEN', HAS)
local told, set, own, given, full = {}, {}, 0, {}, {}
for i, ref in ipairs(refs) do
  if done[i] then
    told[#told + 1] = done[i]
  elseif is[i] then
    if string.sub(is[i], 1, 1) == 'c' then
      set[#set + 1] = ref
      set[#set + 1] = 'a' .. string.sub(is[i], 2)
      own = own + 1
    end
  elseif not again then
    if #given >= room then
      full[#full + 1] = ref
    else
      set[#set + 1] = ref
      set[#set + 1] = 'a 0 0'
      own = own + 1
      given[#given + 1] = ref
    end
  end
end
if #told > 0 then emit('result', told) end
if own > 0 then
  redis.call('HSET', HAS, unpack(set))
  if redis.call('HINCRBY', REFS, job, own) == own then redis.call('HSET', SPECS, job, spec) end
end
if #given > 0 then push(w, ARGV[2], 'chunk', spec .. '\n' .. table.concat(given, ',')) end
return {'OK', full}
