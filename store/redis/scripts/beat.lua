-- beat(id, session, gateway, draining, status, ref, done, ref, done...): what a worker says of
-- itself. What it lacks it is told again, what nobody wants of it it is to stop.
-- -> OK, the number of the latest push
local id = ARGV[2]
local no = session(id, ARGV[3])
if no then return no end
heard(id, ARGV[4])
redis.call('HSET', worker(id), 'draining', ARGV[5])
local named, running, stray = {}, {}, {}
for i = 7, #ARGV, 2 do
  local ref, done = ARGV[i], ARGV[i + 1]
  if not named[ref] then
    named[ref] = true
    local v = redis.call('HGET', has(id), ref)
    if v then
      done = highest(done, string.match(v, '%d+$'))
      redis.call('HSET', has(id), ref, string.sub(v, 1, 1) .. ' 0 ' .. done)
      running[#running + 1] = ref .. ' ' .. done
    elseif redis.call('HEXISTS', results(id), ref) == 0 then
      stray[#stray + 1] = ref
    end
  end
end
if #stray > 0 then push(id, 'stop', table.concat(stray, ',')) end
local again, jobs = {}, {}
local all = redis.call('HGETALL', has(id))
for i = 1, #all, 2 do
  local ref, kind, missed, done = all[i], string.match(all[i + 1], '^(%a) (%d+) (%d+)$')
  if not named[ref] then
    if tonumber(missed) < 1 then
      redis.call('HSET', has(id), ref, kind .. ' 1 ' .. done)
    elseif kind == 'c' then
      remove(id, ref)
    else
      redis.call('HSET', has(id), ref, kind .. ' 0 ' .. done)
      local job = jobOf(ref)
      if not again[job] then
        again[job] = {}
        jobs[#jobs + 1] = job
      end
      table.insert(again[job], ref)
    end
  end
end
table.sort(jobs)
for _, job in ipairs(jobs) do
  table.sort(again[job])
  push(id, 'chunk', redis.call('HGET', SPECS, job) .. '\n' .. table.concat(again[job], ','))
end
emit('status', id, ARGV[6] .. '\n' .. table.concat(running, ','))
return {'OK', redis.call('HGET', worker(id), 'seq')}
