local id = ARGV[4]
-- cancel(term, holder, id, job, "chunk attempt"...): forgets attempts and their results; of
-- none named all of the job.
--- fence
local job, hit = ARGV[5], {}
for i = 6, #ARGV do hit[job .. ' ' .. ARGV[i]] = true end
local every = #ARGV < 6
-- meant lists those of refs that are meant.
local function meant(refs, is)
  local out, kept = {}, {}
  for i, ref in ipairs(refs) do
    if hit[ref] or every and string.match(ref, '^%S+') == job then
      out[#out + 1] = ref
      kept[#kept + 1] = is and is[i]
    end
  end
  return out, kept
end
local refs, is = meant(all())
remove(refs, is)
local done = meant(redis.call('HKEYS', RESULTS))
lose(done)
for _, ref in ipairs(done) do refs[#refs + 1] = ref end
if #refs > 0 then
  table.sort(refs)
  push(redis.call('HMGET', WORKER, 'here', 'session', 'gateway'), ARGV[2], 'stop', table.concat(refs, ','))
end
return {'OK'}
