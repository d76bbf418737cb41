-- Drives Neovim's own client, which the configuration of the document has set up. Arguments: a file, and a file for what was told, as JSON.

local file, report = arg[1], arg[2]
local told = {}

local function until_true(what, is_true)
  if not vim.wait(60000, is_true, 20) then
    error(what .. ' did not come')
  end
end

local function findings()
  local codes = {}
  for _, finding in ipairs(vim.diagnostic.get(0)) do
    table.insert(codes, finding.code)
  end
  return codes
end

local function lines()
  return vim.api.nvim_buf_get_lines(0, 0, -1, false)
end

local function put(mark)
  for number, line in ipairs(lines()) do
    local _, last = line:find(mark, 1, true)
    if last then
      vim.api.nvim_win_set_cursor(0, { number, last - 1 })
      return
    end
  end
  error('there is no ' .. mark)
end

local function ask(method, more)
  local client = vim.lsp.get_clients({ bufnr = 0 })[1]
  local params = vim.lsp.util.make_position_params(0, client.offset_encoding)
  local answer = client:request_sync(method, vim.tbl_extend('force', params, more or {}), 60000, 0)
  return answer.err or answer.result
end

local function drive()
  vim.cmd.edit(file)
  told.filetype = vim.bo.filetype
  until_true('the client', function()
    local client = vim.lsp.get_clients({ bufnr = 0 })[1]
    return client and client.initialized
  end)
  local client = vim.lsp.get_clients({ bufnr = 0 })[1]
  told.clients = #vim.lsp.get_clients()
  told.name = client.name
  told.server = client.server_info.name
  told.root = client.root_dir
  told.encoding = client.offset_encoding
  until_true('a finding', function() return #findings() > 0 end)
  told.opened = findings()

  -- The fix of the finding, chosen as a person chooses it.
  put('scirp')
  vim.lsp.buf.code_action({ context = { only = { 'quickfix' } }, apply = true })
  until_true('the fix', function() return table.concat(lines(), '\n'):find('script: writer', 1, true) end)
  until_true('no finding', function() return #findings() == 0 end)
  told.mended = findings()

  put('agent_name: wri')
  told.hover = ask('textDocument/hover').contents.value
  vim.lsp.buf.definition()
  until_true('the definition', function() return vim.api.nvim_win_get_cursor(0)[1] == 3 end)
  told.definition = vim.api.nvim_win_get_cursor(0)
  put('agent_name: wri')
  vim.lsp.buf.rename('author')
  until_true('the new name', function() return table.concat(lines(), '\n'):find('name: author', 1, true) end)
  told.renamed = lines()
  until_true('the finding about the script, which is not saved', function() return #findings() > 0 end)
  -- The script first: Neovim watches no files on Linux, so the server looks at it when the ensemble is saved.
  for _, buffer in ipairs(vim.api.nvim_list_bufs()) do
    if buffer ~= vim.api.nvim_get_current_buf() and vim.bo[buffer].modified then
      vim.api.nvim_buf_call(buffer, vim.cmd.write)
    end
  end
  vim.cmd.write()

  -- Typing, key by key, with a character of two UTF-16 units before the cursor.
  until_true('no finding', function() return #findings() == 0 end)
  put('output.done')
  local line = vim.api.nvim_get_current_line()
  vim.api.nvim_feedkeys(vim.api.nvim_replace_termcodes('a or outputs.<Esc>', true, false, true), 'x', false)
  until_true('a finding', function() return #findings() > 0 end)
  told.typed = findings()
  local at = vim.lsp.util.make_position_params(0, client.offset_encoding)
  at.position.character = at.position.character + 1
  told.offered = {}
  for _, item in ipairs(client:request_sync('textDocument/completion', at, 60000, 0).result) do
    table.insert(told.offered, item.label)
  end
  vim.api.nvim_set_current_line(line)
  until_true('no finding', function() return #findings() == 0 end)

  told.symbols = {}
  for _, symbol in ipairs(ask('textDocument/documentSymbol')) do
    table.insert(told.symbols, symbol.name)
  end
  told.graph = client:request_sync('workspace/executeCommand', {
    command = 'ensemble.graph',
    arguments = { vim.uri_from_bufnr(0), 'dot' },
  }, 60000, 0).result:match('[^\n]*')
  client:stop()
  until_true('the end of the server', function() return client:is_stopped() end)
end

local ok, why = xpcall(drive, debug.traceback)
if not ok then
  told.error = why
end
vim.fn.writefile({ vim.json.encode(told) }, report)
vim.cmd(ok and 'qall!' or 'cquit!')
