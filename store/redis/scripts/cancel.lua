-- cancel(term, holder, id, job, "chunk attempt"...): forgets attempts and their results; of
-- none named all of the job.
local no = fence(ARGV[2], ARGV[3])
if no then return no end
local id, job, hit = ARGV[4], ARGV[5], {}
for i = 6, #ARGV do hit[job .. ' ' .. ARGV[i]] = true end
local all = #ARGV < 6
local refs = {}
for _, ref in ipairs(redis.call('HKEYS', has(id))) do
  if hit[ref] or all and jobOf(ref) == job then
    remove(id, ref)
    refs[#refs + 1] = ref
  end
end
for _, ref in ipairs(redis.call('HKEYS', results(id))) do
  if hit[ref] or all and jobOf(ref) == job then
    lose(id, ref)
    refs[#refs + 1] = ref
  end
end
if #refs > 0 then
  table.sort(refs)
  push(id, 'stop', table.concat(refs, ','))
end
return {'OK'}
