local id = ARGV[2]
-- beat(id, session, gateway, draining, status, ref, done, ref, done...): what a worker says of
-- itself. What it lacks it is told again, what nobody wants of it it is to stop.
-- -> OK, the number of the latest push
--- session
local gateway, draining = at(w[3], ARGV[4]), ARGV[5]
if w[3] ~= gateway or w[5] ~= draining then redis.call('HSET', WORKER, 'gateway', gateway, 'draining', draining) end
w[3] = gateway
redis.call('ZADD', LIVE, now() + SILENT, id)
local list, kept = redis.call('HGETALL', HAS), {}
for i = 1, #list, 2 do kept[list[i]] = list[i + 1] end
local named, running, stray, set = {}, {}, {}, {}
for i = 7, #ARGV, 2 do
  local ref, done = ARGV[i], ARGV[i + 1]
  if not named[ref] then
    named[ref] = true
    local v = kept[ref]
    if v then
      local before = string.match(v, '%d+$')
      if less(done, before) then done = before end
      set[#set + 1] = ref
      set[#set + 1] = string.sub(v, 1, 1) .. ' 0 ' .. done
      running[#running + 1] = ref .. ' ' .. done
    elseif redis.call('HEXISTS', RESULTS, ref) == 0 then
      stray[#stray + 1] = ref
    end
  end
end
local gone, again, jobs = {}, {}, {}
for i = 1, #list, 2 do
  local ref = list[i]
  if not named[ref] then
    local kind, missed, done = string.match(list[i + 1], '^(%a) (%d+) (%d+)$')
    if tonumber(missed) < 1 then
      set[#set + 1] = ref
      set[#set + 1] = kind .. ' 1 ' .. done
    elseif kind == 'c' then
      gone[#gone + 1] = ref
    else
      set[#set + 1] = ref
      set[#set + 1] = kind .. ' 0 ' .. done
      local job = string.match(ref, '^%S+')
      if not again[job] then
        again[job] = {}
        jobs[#jobs + 1] = job
      end
      table.insert(again[job], ref)
    end
  end
end
if #gone > 0 then redis.call('HDEL', HAS, unpack(gone)) end
if #set > 0 then redis.call('HSET', HAS, unpack(set)) end
local seq = w[4]
if #stray > 0 then seq = push(w, termNow(), 'stop', table.concat(stray, ',')) end
table.sort(jobs)
for _, job in ipairs(jobs) do
  table.sort(again[job])
  seq = push(w, termNow(), 'chunk', redis.call('HGET', SPECS, job) .. '\n' .. table.concat(again[job], ','))
end
emit('status', {ARGV[6] .. '\n' .. table.concat(running, ',')})
return {'OK', seq}
