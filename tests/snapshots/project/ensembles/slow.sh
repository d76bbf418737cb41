[ -e go ] && echo done && exit
touch slow-started
exec sleep 600
