-- count(take or look, key, every, burst, ...): counts in turn what somebody asks for.
-- -> OK; or LATE, the number of the first that is too many, and for how long
--- rate
for i = 2, #ARGV, 4 do
  local wait = late(ARGV[i] == 'look', ARGV[i + 1], ARGV[i + 2], ARGV[i + 3])
  if wait then return {'LATE', (i + 2) / 4, wait} end
end
return {'OK'}
