-- assign(term, holder, id, again, job, spec, "chunk attempt"...): gives chunks to a worker.
-- What it has is left as it is, what it has done is told again; again: the command was
-- obeyed before, what is not there has its fate.
-- -> OK, the refs for which there was no room
local no = fence(ARGV[2], ARGV[3])
if no then return no end
local id, again, job, spec = ARGV[4], ARGV[5] == '1', ARGV[6], ARGV[7]
if redis.call('EXISTS', worker(id)) == 0 then return {'GONE'} end
local given, full = {}, {}
for i = 8, #ARGV do
  local ref = job .. ' ' .. ARGV[i]
  local v, done = redis.call('HGET', has(id), ref), redis.call('HGET', results(id), ref)
  if done then
    emit('result', id, done)
  elseif v then
    if string.sub(v, 1, 1) == 'c' then
      redis.call('HSET', has(id), ref, 'a' .. string.sub(v, 2))
      redis.call('HINCRBY', REFS, job, 1)
      redis.call('HSETNX', SPECS, job, spec)
    end
  elseif not again then
    if redis.call('HLEN', has(id)) >= MAXREFS then
      full[#full + 1] = ref
    else
      add(id, ref, 'a')
      redis.call('HSETNX', SPECS, job, spec)
      given[#given + 1] = ref
    end
  end
end
if #given > 0 then push(id, 'chunk', redis.call('HGET', SPECS, job) .. '\n' .. table.concat(given, ',')) end
return {'OK', full}
